#include "models/onnx/layers.h"

#include <cmath>

namespace foldgrad {
namespace {

// [out, in] -> [in, out]
Tensor transposed(const Tensor& w) {
  const std::int64_t rows = w.shape()[0], columns = w.shape()[1];
  const Tensor result = Tensor::empty({columns, rows}, DType::f32);
  const float* from = w.data<float>();
  float* to = result.data<float>();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  return result;
}

}  // namespace

std::string onnx_linear(OnnxGraph& g, const LinearLayer& layer, const std::string& x) {
  const std::string product =
      g.node("MatMul", {x, g.initializer(layer.weight.name, transposed(layer.matrix_values()))});
  if (!layer.has_bias()) return product;
  return g.node("Add", {product, g.initializer(layer.bias.name, layer.bias.value)});
}

std::string onnx_split_heads(OnnxGraph& g, const std::string& x, std::int64_t heads, std::int64_t width) {
  const std::string split = g.node("Reshape", {x, g.integers({0, 0, heads, width / heads})});
  return g.node("Transpose", {split}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
}

std::string onnx_attention(OnnxGraph& g, const std::string& q, const std::string& k, const std::string& v,
                           const std::string& bias, std::int64_t head_width, std::int64_t width) {
  const std::string columns = g.node("Transpose", {k}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
  const std::string scaled = g.node("Mul", {q, g.number(1 / std::sqrt(double(head_width)))});
  std::string scores = g.node("MatMul", {scaled, columns});
  if (!bias.empty()) scores = g.node("Add", {scores, bias});
  const std::string p = g.node("Softmax", {scores}, {{"axis", std::int64_t(-1)}});
  const std::string y =
      g.node("Transpose", {g.node("MatMul", {p, v})}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
  return g.node("Reshape", {y, g.integers({0, 0, width})});
}

std::string onnx_attention_bias(OnnxGraph& g, const std::string& seen) {
  return g.node("Where", {seen, g.number(0), g.number(-1e30)});
}

}  // namespace foldgrad
