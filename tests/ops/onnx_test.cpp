// Operations as nodes of ONNX, as text: Slice(x0, [2], [4], [1]). What the nodes compute is compared by
// tests/python/onnxruntime_test.py and its like, for the operations of models.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "engine/graph/onnx_graph.h"
#include "ops/activation/activation.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/concat/concat.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/flip/flip.h"
#include "ops/linear/linear.h"
#include "ops/permute/permute.h"
#include "ops/reduce/reduce.h"
#include "ops/reshape/reshape.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/softmax/softmax.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

class TextGraph final : public OnnxGraph {
 public:
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes) override {
    std::string text = fmt::format("{}({}", op, fmt::join(inputs, ", "));
    for (const auto& [name, value] : attributes)
      if (const auto* sizes = std::get_if<Sizes>(&value))
        text += fmt::format(", {}=[{}]", name, fmt::join(*sizes, ", "));
      else
        text += fmt::format(", {}={}", name, std::get<std::int64_t>(value));
    return text + ")";
  }
  std::string initializer(const std::string& name, const Tensor&) override { return name; }
};

// Operands x0, x1, ... of the newest node of a tape.
class TextOperands final : public OnnxOperands {
 public:
  explicit TextOperands(const Tape& tape) : tape_(tape), node_(*tape.nodes().back()) {}
  std::string operator[](int k) const override { return "x" + std::to_string(k); }
  const Shape& shape(int k) const override { return tape_.shape_of(node_.inputs()[std::size_t(k)]); }
  const Shape& result() const override { return tape_.shape_of(node_.output()); }
  std::string matrix(int k, const Tensor&) const override { return (*this)[k] + "^T"; }
  std::string constant(int k, const Tensor&) const override { return (*this)[k]; }
  std::string positions() const override { return "positions"; }
  std::string split_heads(const std::string& rows, std::int64_t, std::int64_t, std::int64_t) const override {
    return rows;
  }
  std::string merge_heads(const std::string& y) const override { return y; }
  Keys keys(const Keys& recorded, bool) const override { return recorded; }

 private:
  const Tape& tape_;
  const Node& node_;
};

std::string onnx_of(const std::function<Var(Tape&)>& operation) {
  Tape tape;
  operation(tape);
  TextGraph graph;
  return tape.nodes().back()->onnx(graph, TextOperands(tape));
}
Var x(Tape& t, const Shape& shape) { return t.variable(Tensor::zeros(shape, DType::f32)); }

TEST(Onnx, OperationsThatMove) {
  EXPECT_EQ(onnx_of([](Tape& t) { return permute(x(t, {2, 3, 4}), {0, 2, 1}); }), "Transpose(x0, perm=[0, 2, 1])");
  EXPECT_EQ(onnx_of([](Tape& t) { return reshape(x(t, {2, 3, 4}), {6, 4}); }), "Reshape(x0, [-1, 4])");
  EXPECT_EQ(onnx_of([](Tape& t) { return slice(x(t, {2, 5}), 1, 2, 4); }), "Slice(x0, [2], [4], [1])");
  EXPECT_EQ(onnx_of([](Tape& t) {
              return flip(x(t, {2, 5}), 1);
            }),
            "Slice(x0, [-1], [-9223372036854775808], [1], [-1])");
  EXPECT_EQ(onnx_of([](Tape& t) {
              const Var a = x(t, {2, 5}), b = x(t, {2, 3});
              return concat({a, b}, 1);
            }),
            "Concat(x0, x1, axis=1)");
}

TEST(Onnx, OperationsThatCompute) {
  EXPECT_EQ(onnx_of([](Tape& t) {
              const Var a = x(t, {2, 3}), W = x(t, {4, 3}), b = x(t, {4});
              return linear(a, W, b);
            }),
            "Add(MatMul(x0, x1^T), x2)");
  EXPECT_EQ(onnx_of([](Tape& t) {
              const Var a = x(t, {2, 3}), b = x(t, {3});
              return bias_activation(a, b, Activation::silu);
            }),
            "Mul(Add(x0, x1), Sigmoid(Add(x0, x1)))");
  EXPECT_EQ(onnx_of([](Tape& t) {
              const Var a = x(t, {2, 3}), b = x(t, {3}), c = x(t, {2, 3});
              return bias_dropout_residual(a, b, c, 0, {});
            }),
            "Add(x2, Add(x0, x1))");
  EXPECT_EQ(onnx_of([](Tape& t) {
              const Var table = x(t, {5, 3});
              return embedding(table, t.constant(random_ids({2, 2}, 5, 1)), 2);
            }),
            "Mul(Gather(x0, x1), 2)");
  EXPECT_EQ(onnx_of([](Tape& t) {
              return unit_rows(x(t, {2, 3}), 0.5);
            }),
            "Div(x0, Max(ReduceL2(x0, axes=[-1], keepdims=1), 0.5))");
  EXPECT_EQ(onnx_of([](Tape& t) { return mean_pool(x(t, {2, 3, 4})); }), "ReduceMean(x0, axes=[1], keepdims=0)");
  EXPECT_EQ(onnx_of([](Tape& t) {
              const Var a = x(t, {2, 3, 4}), w = x(t, {2, 3});
              return weighted_pool(a, w);
            }),
            "Squeeze(MatMul(Unsqueeze(x1, [1]), x0), [1])");
}

TEST(Onnx, OperationsWithoutNodes) {
  EXPECT_EQ(message_of([] { onnx_of([](Tape& t) {
                              return sum(x(t, {2, 3}));
                            }); }),
            "onnx: sum is not known as nodes of ONNX");
}

}  // namespace
}  // namespace foldgrad::testing
