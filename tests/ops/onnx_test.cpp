// Tests the ONNX nodes of operations, written as text, for example Slice(x0, [2], [4], [1]). Other tests, such as
// tests/python/onnxruntime_test.py, run exported models and compare their results.
#include <fmt/ranges.h>

#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/activation/activation.h"
#include "ops/affine/affine.h"
#include "ops/concat/concat.h"
#include "ops/conv2d/conv2d.h"
#include "ops/divide_rows/divide_rows.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/flip/flip.h"
#include "ops/gate/gate.h"
#include "ops/linear/linear.h"
#include "ops/matmul/matmul.h"
#include "ops/permute/permute.h"
#include "ops/reduce/reduce.h"
#include "ops/reindex/reindex.h"
#include "ops/reshape/reshape.h"
#include "ops/scale_norm/scale_norm.h"
#include "ops/weighted_pool/weighted_pool.h"
#include "tests/harness/op_spec.h"

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

// The operands x0, x1, ... of the last node of a tape.
class TextOperands final : public OnnxOperands {
 public:
  explicit TextOperands(const Tape& tape) : tape_(tape), node_(*tape.nodes().back()) {}
  std::string operator[](int k) const override { return "x" + std::to_string(k); }
  const Shape& shape(int k) const override { return tape_.shape_of(node_.inputs()[std::size_t(k)]); }
  const Shape& result() const override { return tape_.shape_of(node_.output()); }
  std::string matrix(int k, const Tensor&) const override { return (*this)[k] + "^T"; }
  std::string constant(int k, const Tensor&) const override { return (*this)[k]; }
  std::string recorded(int k, const Tensor&) const override { return (*this)[k]; }
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

// Checks that `text` is the ONNX form of the last node that f records for operands x0, x1, ... of these shapes.
void expect_onnx(const std::string& text, const std::vector<Shape>& shapes, const OpFunction& f) {
  Tape tape;
  std::vector<Var> x;
  for (const Shape& shape : shapes) x.push_back(tape.variable(Tensor::zeros(shape, DType::f32)));
  f(x);
  TextGraph graph;
  EXPECT_EQ(Description::of(*tape.nodes().back()).onnx(graph, TextOperands(tape)), text);
}

TEST(Onnx, OperationsThatMove) {
  const std::vector<int> axes{0, 2, 1};
  expect_onnx("Transpose(x0, perm=[0, 2, 1])", {{2, 3, 4}}, [&](auto& x) { return permute(x[0], axes); });
  const std::vector<std::int64_t> sizes{6, 4};
  expect_onnx("Reshape(x0, [-1, 4])", {{2, 3, 4}}, [&](auto& x) { return reshape(x[0], sizes); });
  expect_onnx("Slice(x0, [2], [4], [1])", {{2, 5}}, [](auto& x) { return slice(x[0], 1, 2, 4); });
  expect_onnx("Slice(x0, [-1], [-9223372036854775808], [1], [-1])", {{2, 5}}, [](auto& x) { return flip(x[0], 1); });
  expect_onnx("Reshape(Gather(Reshape(x0, [-1, 3, 4]), [2, 0, 1], axis=1), [-1, 4])", {{6, 4}}, [](auto& x) {
    return reindex(x[0], RowOrder({2, 0, 1}));
  });
  expect_onnx("Concat(x0, x1, axis=1)", {{2, 5}, {2, 3}}, [](auto& x) { return concat(x, 1); });
}

TEST(Onnx, OperationsThatCompute) {
  expect_onnx("Add(MatMul(x0, x1^T), x2)", {{2, 3}, {4, 3}, {4}}, [](auto& x) { return linear(x[0], x[1], x[2]); });
  expect_onnx("MatMul(x0, x1)", {{2, 3, 4}, {2, 4, 5}}, [](auto& x) { return matmul(x[0], x[1]); });
  expect_onnx("MatMul(Transpose(x0, perm=[0, 2, 1]), Transpose(x1, perm=[0, 2, 1]))", {{2, 4, 3}, {2, 5, 4}},
              [](auto& x) { return matmul(x[0], x[1], /*transpose_a=*/true, /*transpose_b=*/true); });
  expect_onnx("Div(x0, Unsqueeze(Add(x1, 0.5), [-1]))", {{2, 3}, {2}},
              [](auto& x) { return divide_rows(x[0], x[1], 0.5); });
  expect_onnx("Exp(x0)", {{2, 3}}, [](auto& x) { return exp(x[0]); });
  expect_onnx(
      "Reshape(Transpose(Conv(Transpose(x0, perm=[0, 3, 1, 2]), unfold.5x3x2, kernel_shape=[3, 2], strides=[2, 2], "
      "pads=[1, 1, 1, 1], group=5), perm=[0, 2, 3, 1]), [-1, 12, 30])",
      {{2, 7, 5, 5}}, [](auto& x) { return unfold(x[0], 3, 2, {.stride = 2, .padding = 1}); });
  expect_onnx("Mul(Add(x0, x1), Sigmoid(Add(x0, x1)))", {{2, 3}, {3}},
              [](auto& x) { return bias_activation(x[0], x[1], Activation::silu); });
  expect_onnx("Add(x2, Add(x0, x1))", {{2, 3}, {3}, {2, 3}},
              [](auto& x) { return bias_dropout_residual(x[0], x[1], x[2], 0, {}); });
  const Tensor ids = random_ids({2, 2}, 5, 1);
  expect_onnx("Mul(Gather(x0, x1), 2)", {{5, 3}},
              [&](auto& x) { return embedding(x[0], x[0].tape().constant(ids), 2); });
  expect_onnx("Div(x0, Max(ReduceL2(x0, axes=[-1], keepdims=1), 0.5))", {{2, 3}},
              [](auto& x) { return unit_rows(x[0], 0.5); });
  expect_onnx("ReduceMean(x0, axes=[1], keepdims=0)", {{2, 3, 4}}, [](auto& x) { return mean_pool(x[0]); });
  expect_onnx("Squeeze(MatMul(Unsqueeze(x1, [1]), x0), [1])", {{2, 3, 4}, {2, 3}},
              [](auto& x) { return weighted_pool(x[0], x[1]); });
  expect_onnx("Mul(x0, x1)", {{2, 3}, {1}}, [](auto& x) { return scale_by(x[0], x[1]); });
  expect_onnx("Mul(x0, Unsqueeze(x1, [1]))", {{2, 3, 4}, {2, 4}}, [](auto& x) { return gate(x[0], x[1]); });
}

TEST(Onnx, OperationsWithoutNodes) {
  EXPECT_EQ(message_of([] {
              expect_onnx("", {{2, 3}}, [](auto& x) { return sum(x[0]); });
            }),
            "onnx: sum cannot be expressed in ONNX");
}

}  // namespace
}  // namespace foldgrad::testing
