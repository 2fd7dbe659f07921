// A recorded forward pass that outlives its tape. Folding uses it to prove each step; `foldgrad graph` draws it.
#pragma once
#include <string>
#include <vector>

#include "engine/graph/channel_map.h"
#include "engine/graph/description.h"
#include "engine/tape.h"

namespace foldgrad {

struct GraphValue {
  Shape shape;
  std::string parameter;  // the parameter's name; empty for results of operations and for constants
};

struct GraphNode {
  std::string kind;                                 // Node::name(), or kNormalizer
  std::string scope;                                // the layer's name, from Tape::Scope
  std::vector<int> operands;                        // ids of values; a normalizer has x first and its parameters last
  int result;                                       // id of the result
  Description description;                          // for a normalizer, only `training` is set
  std::shared_ptr<const Node> operation = nullptr;  // keeps alive what `description` uses; null for a normalizer
  std::string parts = {};                           // a normalizer's operations, such as "channel_norm scale_by add"
};

inline constexpr const char* kNormalizer = "normalizer";

// A use of a value, as operand number `operand` of node `node`.
struct GraphUse {
  int node, operand;
};

struct Graph {
  std::vector<GraphNode> nodes;  // in topological order: operands come before their uses
  std::vector<GraphValue> values;
  std::vector<int> results;  // the values that the forward pass returned

  std::vector<GraphUse> uses(int value) const;
  std::vector<GraphUse> uses_of(const std::string& parameter) const;
  int producer(int value) const;  // returns the node that computes the value; -1 for parameters and constants
  bool returned(int value) const;
  const Shape& shape(const GraphUse& use) const { return values[nodes[use.node].operands[use.operand]].shape; }
  const Shape& result_shape(int node) const { return values[nodes[node].result].shape; }
  const std::string& parameter(int node, int operand) const;  // the operand's name, or "" if it is not a parameter
  std::string describe(const GraphUse& use) const;            // returns, for example, "encoder.layers.0.ffn: relu"
};

// Returns the whole recording. Consecutive operations of a scope in `sites` become one normalizer node; if the scope
// appears again later, its operations become a second node. A parameter that was cast or reshaped counts as the
// parameter itself. If several parameters share storage, all of them count as the first one.
Graph graph_of(const Tape& tape, const std::vector<Var>& results, const std::vector<std::string>& sites = {});

}  // namespace foldgrad
