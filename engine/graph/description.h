// The properties of an operation that folding, export, drawing and analyses of a recording need. An operation states
// them in Node::describe(), in its own folder, so there is no central list of operations.
#pragma once
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/node.h"

namespace foldgrad {

struct ChannelMap;
struct Graph;
struct GraphUse;
class OnnxGraph;
class OnnxOperands;

struct Description {
  // Operand numbers. -1 means that the operation has no such operand.
  int weight = -1;                // shape [out, channels, ...]; multiplies the last axis of operand 0
  int bias = -1;                  // shape [out]; added to the product with the weight or, without one, to operand 0
  int table = -1;                 // shape [rows, C]; the result consists of rows of the table, multiplied by `scale`
  int positions = -1;             // shape [T, C]; added to operand 0
  int recorded = -1;              // ONNX export writes this operand's recorded value; it must not depend on the inputs
  std::vector<int> streams = {};  // operands of a sum that may be a residual stream

  double scale = 1;
  double dropout = 0;        // probability that an element is dropped
  bool pads = false;         // the operation pads operand 0 with zeros
  bool activates = false;    // the operation ends with a nonlinear function
  bool sums_to_one = false;  // each row of the result, along the last axis, sums to one, whatever the operands
  bool training = false;     // the operation used batch statistics

  // How the result's numbers relate to operand 0. same: the same numbers, in the same order in memory. same_rows: each
  // row along the last axis is a row of operand 0. computed: any other relation.
  enum class Numbers { computed, same_rows, same } numbers = Numbers::computed;

  // Moves `map`, which is pending at operand use.operand, to the result: finds map' with f(map(x)) = map'(f(x)).
  // Returns an empty string, or the reason why there is no such map'. If an operation does not set this function, the
  // reason is "NAME is not linear".
  std::function<std::string(const Graph& graph, const GraphUse& use, ChannelMap& map)> passes = {};
  // Adds the operation to an ONNX graph and returns its result's name. Throws std::invalid_argument if ONNX lacks the
  // operation. The default always throws.
  std::function<std::string(OnnxGraph& g, const OnnxOperands& operands)> onnx = {};

  // Returns the node's description. Its `passes` and `onnx` refer to the node.
  static Description of(const Node& node) {
    Description d;
    d.passes = [&node](const Graph&, const GraphUse&, ChannelMap&) {
      return node.name() + std::string(" is not linear");
    };
    d.onnx = [&node](OnnxGraph&, const OnnxOperands&) -> std::string {
      throw std::invalid_argument("onnx: " + std::string(node.name()) + " cannot be expressed in ONNX");
    };
    node.describe(d);
    return d;
  }
};

}  // namespace foldgrad
