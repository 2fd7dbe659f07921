// Nodes of an ONNX graph (https://onnx.ai), operator set 17, as operations export themselves.
//
// Values are known by their names. A value has the shape of the recorded one, but for the first axis, which is as long
// as a run makes it.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tensor.h"

namespace foldgrad {

class OnnxGraph {
 public:
  using Sizes = std::vector<std::int64_t>;
  using Attribute = std::pair<std::string, std::variant<std::int64_t, double, Sizes>>;

  virtual ~OnnxGraph() = default;

  // Names nodes from now on, and their results, PLACE/OPERATOR, numbered where there are several.
  void at(const std::string& place) { place_ = place; }
  // Adds a node and returns its result; it has one.
  virtual std::string node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<Attribute>& attributes = {}) = 0;
  std::string transpose(const std::string& x, const Sizes& axes) { return node("Transpose", {x}, {{"perm", axes}}); }
  // Reshapes x to these other sizes; the first axis takes what they leave.
  std::string reshape(const std::string& x, Sizes others);

  // Adds a copy of a weight on the CPU, f32 or i64. If the name is known already, it is the weight that was given
  // first. Throws std::invalid_argument when the weights are more than a file of protobuf can hold.
  virtual std::string initializer(const std::string& name, const Tensor& value) = 0;
  // These add constants.
  std::string number(double value);           // f32 []
  std::string integer(std::int64_t value);    // i64 []
  std::string integers(const Sizes& values);  // i64 [size]

 protected:
  std::string place_;
};

// The operands of a recorded operation as values of the graph.
class OnnxOperands {
 public:
  virtual ~OnnxOperands() = default;

  virtual std::string operator[](int k) const = 0;
  virtual const Shape& shape(int k) const = 0;  // as recorded
  virtual const Shape& result() const = 0;      // as recorded
  // Returns operand k, the weight [out, in] that was recorded as `value`, as [in, out].
  virtual std::string matrix(int k, const Tensor& value) const = 0;
  // Returns the integers `value` that operand k was recorded with, the same for all of the first axis.
  virtual std::string constant(int k, const Tensor& value) const = 0;

  // These are for operations on the rows of sequences. `length`: of all sequences, -1 if they differ.
  // Returns the position of each row [POS-2], i64.
  virtual std::string positions() const = 0;
  // Splits rows of `heads` x `width` columns into [batch, heads, length, width], and merges them again.
  virtual std::string split_heads(const std::string& rows, std::int64_t length, std::int64_t heads,
                                  std::int64_t width) const = 0;
  virtual std::string merge_heads(const std::string& y) const = 0;
  // The keys and values that attention is to see in place of those that were recorded, as split_heads() gives them, and
  // what is to be added to its scores; an empty text is nothing.
  struct Keys {
    std::string k, v, bias = "";
  };
  virtual Keys keys(const Keys& recorded, bool causal) const = 0;
};

}  // namespace foldgrad
