// A recorded forward pass that outlives its tape: folding proves its steps on it, and `foldgrad graph` draws it.
#pragma once
#include <string>
#include <vector>

#include "engine/graph/channel_map.h"
#include "engine/graph/description.h"

namespace foldgrad {

struct GraphValue {
  Shape shape;
  std::string parameter;  // its name; empty for results of operations and constants
};

struct GraphNode {
  std::string kind;                                 // Node::name(), or kNormalizer
  std::string scope;                                // the place in the model
  std::vector<int> operands;                        // values; of a normalizer x first, its parameters last
  int result;                                       // a value
  Description description;                          // of a normalizer: nothing but whether it was recorded in training
  std::shared_ptr<const Node> operation = nullptr;  // null for a normalizer
  std::string parts = {};  // of a normalizer: the operations it consists of, "channel_norm scale_by add"
};

inline constexpr const char* kNormalizer = "normalizer";

// An edge, seen from its end: operand `operand` of node `node`.
struct GraphUse {
  int node, operand;
  bool operator==(const GraphUse&) const = default;
};

struct Graph {
  std::vector<GraphNode> nodes;  // an operand's node stands before those that use it
  std::vector<GraphValue> values;
  std::vector<int> results;  // values that the forward pass returns

  std::vector<GraphUse> uses(int value) const;
  std::vector<GraphUse> uses_of(const std::string& parameter) const;
  int producer(int value) const;  // a node, -1 for parameters and constants
  bool returned(int value) const;
  const Shape& shape(const GraphUse& use) const { return values[nodes[use.node].operands[use.operand]].shape; }
  const Shape& result_shape(int node) const { return values[nodes[node].result].shape; }
  const std::string& parameter(int node, int operand) const;  // its name, empty when it is none
  std::string describe(const GraphUse& use) const;            // "encoder.layers.0.ffn: relu"
};

// Returns everything that is recorded on the tape. The operations of a scope of `sites` become one node, a normalizer;
// the same scope again, after other operations, becomes another one. Parameters that were cast or reshaped count as
// themselves, and parameters that share their storage as one, the first.
Graph graph_of(const Tape& tape, const std::vector<Var>& results, const std::vector<std::string>& sites = {});

}  // namespace foldgrad
