// A recorded forward pass as plain data: what folding proves its steps on, and what `foldgrad graph` draws.
#pragma once
#include <string>
#include <vector>

#include "engine/tape.h"

namespace foldgrad {

struct GraphValue {
  Shape shape;
  std::string parameter;  // its name; empty for results of operations and constants
};

struct GraphNode {
  std::string kind;               // Node::name(), or kNormalizer
  std::string scope;              // the place in the model
  std::vector<int> operands;      // values; of a normalizer x first, its parameters last
  int result;                     // a value
  std::vector<double> arguments;  // Node::arguments()
  std::string parts = {};         // of a normalizer: the operations it consists of, "channel_norm scale_by add"
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
  const std::string& parameter(int node, int operand) const;  // its name, empty when it is none
  std::string describe(const GraphUse& use) const;            // "encoder.layers.0.ffn: relu"
};

// Everything that is recorded on the tape. What a scope of `sites` holds becomes one node; the same scope again, with
// other operations in between, another one. Parameters that were cast or reshaped count as themselves, and parameters
// that share their storage as one, the first.
Graph graph_of(const Tape& tape, const std::vector<Var>& results, const std::vector<std::string>& sites = {});

}  // namespace foldgrad
