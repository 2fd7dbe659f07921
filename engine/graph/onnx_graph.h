// Builds an ONNX graph (https://onnx.ai) with operator set 17. Operations use this interface to export themselves. A
// value is identified by its name. It has the shape of the recorded value, except that the size of the first axis is
// set at run time.
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

  // Sets PLACE in the names PLACE/OPERATOR of later nodes and their results. Repeated names get numbers.
  void at(const std::string& place) { place_ = place; }
  // Adds a node and returns the name of its only result.
  virtual std::string node(const std::string& op, const std::vector<std::string>& inputs,
                           const std::vector<Attribute>& attributes = {}) = 0;
  std::string transpose(const std::string& x, const Sizes& axes) { return node("Transpose", {x}, {{"perm", axes}}); }
  // Reshapes x to [rest, others...]; the first axis takes all remaining elements.
  std::string reshape(const std::string& x, Sizes others);

  // Adds an f32 or i64 weight, which must not change until the graph is written. If the name exists, keeps its first
  // weight. Throws std::invalid_argument if the weights no longer fit into a protobuf file.
  virtual std::string initializer(const std::string& name, const Tensor& value) = 0;
  // These functions add a constant.
  std::string number(double value);           // an f32 scalar
  std::string integer(std::int64_t value);    // an i64 scalar
  std::string integers(const Sizes& values);  // an i64 vector

 protected:
  std::string place_;
};

// The operands of a recorded operation, as values of the ONNX graph.
class OnnxOperands {
 public:
  virtual ~OnnxOperands() = default;

  virtual std::string operator[](int k) const = 0;
  virtual const Shape& shape(int k) const = 0;  // shape of operand k in the recorded pass
  virtual const Shape& result() const = 0;      // shape of the result in the recorded pass
  // Returns operand k's weight `value` [out, in], transposed to [in, out].
  virtual std::string matrix(int k, const Tensor& value) const = 0;
  // Returns operand k's recorded integers `value` as a constant, repeated for every index of the first axis.
  virtual std::string constant(int k, const Tensor& value) const = 0;

  // Returns `value`, the recorded value of operand k, as a weight. k must be Description::recorded.
  virtual std::string recorded(int k, const Tensor& value) const = 0;

  // The functions below are for operations on rows of sequences. `length` is the length of all sequences, or -1 if they
  // differ in length.
  // Returns the i64 position of each row, as in [POS-2]; for rotary, the index of the row in its sequence.
  virtual std::string positions() const = 0;
  // These split rows of `heads` * `width` columns into [batch, heads, length, width], and merge them again.
  virtual std::string split_heads(const std::string& rows, std::int64_t length, std::int64_t heads,
                                  std::int64_t width) const = 0;
  virtual std::string merge_heads(const std::string& y) const = 0;
  // The keys and values that attention reads instead of the recorded ones: k and v in the layout of split_heads(), and
  // a bias to add to the scores, or "" if there is none.
  struct Keys {
    std::string k, v, bias = "";
  };
  virtual Keys keys(const Keys& recorded, bool causal) const = 0;
};

}  // namespace foldgrad
