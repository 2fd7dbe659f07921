#include "ops/linear/linear.h"

#include <numeric>

#include "engine/cpu/column_sums.h"
#include "engine/gemm/gemm.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "ops/linear/stacked.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

double beta(GradMode mode) { return mode == GradMode::add ? 1 : 0; }

// One or several layers of the same x. One layer's gradients go where the tape says. The gradients of several go to new
// memory, since one product writes them next to each other.
struct LayersNode {
  Tensor x, weight;  // weight begins where the rows of all layers do
  std::vector<std::int64_t> outs;
  bool has_bias;

  const char* name() const { return "linear_side_by_side"; }
  std::int64_t out() const { return std::accumulate(outs.begin(), outs.end(), std::int64_t(0)); }

  // Differentiates linear [LIN-1]: dx [LIN-2], dW [LIN-3], db [LIN-4].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    const Device device = dy.device();
    const std::int64_t in = x.shape()[-1], rows = dy.shape().without(-1).elements();
    if (const auto [dx, mode] = grads.place(0); dx.defined())
      gemm(device, dy.dtype(), {.m = rows, .n = in, .k = out(), .beta = beta(mode)}, dx.raw(), dy.raw(),
           weight.raw());  // [LIN-2]
    dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
      const auto db = bias_place<T>(grads);
      if (weight_gradient(grads, db) || !db) return;
      const ColumnTotals<T> sums{.out = db, .values = dy.data<T>(), .rows = rows, .columns = out()};
      FOLDGRAD_RUN(device, column_sums, sums);  // [LIN-4]
    });
  }

  // Returns memory for the gradients of operands first, first + 1, ..., and gives each operand its rows. Undefined if
  // none needs a gradient.
  Tensor place_of_all(NodeGrads& grads, int first, const Shape& shape, DType dtype) const {
    const Tensor all = Tensor::empty(shape, dtype, x.device());
    const std::vector<Tensor> parts = split(all, outs);
    bool wanted = false;
    for (int i = 0; i < int(parts.size()); ++i) {
      wanted |= grads.wanted(first + i);
      grads.give(first + i, parts[i]);
    }
    return wanted ? all : Tensor();
  }

  template <class T>
  ParameterGradOut<T> bias_place(NodeGrads& grads) const {
    if (!has_bias) return {};
    const int first = 1 + int(outs.size());
    if (outs.size() == 1) return grads.exact_out<T>(first);
    const Tensor db = place_of_all(grads, first, {out()}, dtype_of<compute_t<T>>);
    return {data_or_null<compute_t<T>>(db)};
  }
  std::pair<Tensor, GradMode> weight_place(NodeGrads& grads, DType sum) const {
    if (outs.size() == 1) return grads.exact_place(1);
    return {place_of_all(grads, 1, {out(), x.shape()[-1]}, sum), GradMode::set};
  }

  // Returns true if the product has also computed db.
  template <class Sum>
  bool weight_gradient(NodeGrads& grads, const GradOut<Sum>& db) const {
    const auto [dw, mode] = weight_place(grads, dtype_of<Sum>);
    if (!dw.defined()) return false;
    const Tensor& dy = grads.dy();
    const Gemm product{.transpose_a = true,
                       .m = out(),
                       .n = x.shape()[-1],
                       .k = dy.shape().without(-1).elements(),
                       .beta = beta(mode),
                       .f32_c = dw.dtype() != dy.dtype()};
    if (db && db.mode == GradMode::set && dw.dtype() == dtype_of<Sum> &&
        gemm_with_row_sums(dy.device(), dy.dtype(), product, dw.raw(), dy.raw(), x.raw(), db.data))
      return true;
    gemm(dy.device(), dy.dtype(), product, dw.raw(), dy.raw(), x.raw());  // [LIN-3]
    return false;
  }
};

struct LinearNode : LayersNode {
  const char* name() const { return "linear"; }
  void describe(Description& d) const {
    d.weight = 1;
    if (has_bias) d.bias = 2;
  }
  std::string onnx(OnnxGraph& g, const OnnxOperands& in) const {
    const std::string product = g.node("MatMul", {in[0], in.matrix(1, weight)});
    return has_bias ? g.node("Add", {product, in[2]}) : product;
  }
};

Tensor in_one_place(const std::vector<Var>& parts) {
  std::vector<Tensor> tensors;
  for (const Var& part : parts) tensors.push_back(part.value());
  return lie_together(tensors) ? tensors[0] : stacked(tensors);
}

// Computes and records y. There is one bias per weight, or none at all.
Var product(const char* op, const Var& xv, const std::vector<Var>& weights, const std::vector<Var>& biases) {
  const Tensor& x = xv.value();
  check_floating(op, "x", x, 1);
  LayersNode node{.x = x, .weight = {}, .outs = {}, .has_bias = !biases.empty()};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Tensor& weight = weights[i].value();
    check_floating(op, "weight", weight, 1);
    const std::int64_t out = node.outs.emplace_back(weight.shape()[0]);
    check_operand(op, "weight", weight, {out, x.shape()[-1]}, x, "x");
    if (node.has_bias) check_operand(op, "bias", biases[i].value(), {out}, x, "x");
  }
  node.weight = in_one_place(weights);
  const Tensor bias = node.has_bias ? in_one_place(biases) : Tensor();
  const Tensor y = Tensor::empty(x.shape().with(-1, node.out()), x.dtype(), x.device());
  const Gemm g{.transpose_b = true, .m = x.shape().without(-1).elements(), .n = node.out(), .k = x.shape()[-1]};
  gemm(x.device(), x.dtype(), g, y.raw(), x.raw(), node.weight.raw(), bias.raw());  // [LIN-1]
  std::vector<Var> operands{xv};
  operands.insert(operands.end(), weights.begin(), weights.end());
  operands.insert(operands.end(), biases.begin(), biases.end());
  return weights.size() == 1 ? xv.tape().record(y, operands, LinearNode{node}) : xv.tape().record(y, operands, node);
}

}  // namespace

Var linear(const Var& x, const Var& weight) { return product("linear", x, {weight}, {}); }
Var linear(const Var& x, const Var& weight, const Var& bias) { return product("linear", x, {weight}, {bias}); }

Var linear_side_by_side(const Var& x, const std::vector<Var>& weights, const std::vector<Var>& biases) {
  FOLDGRAD_CHECK(!weights.empty() && (biases.empty() || biases.size() == weights.size()),
                 "linear_side_by_side: there must be weights, and as many biases or none, got {} and {}",
                 weights.size(), biases.size());
  return product("linear_side_by_side", x, weights, biases);
}

bool side_by_side_pays(Device device) { return device == Device::cuda; }

}  // namespace foldgrad
