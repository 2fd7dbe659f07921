#include "ops/linear/linear.h"

#include "engine/cpu/column_sums.h"
#include "engine/gemm/gemm.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

double beta(GradMode mode) { return mode == GradMode::add ? 1 : 0; }

struct LinearNode {
  Tensor x, weight;
  bool has_bias;

  const char* name() const { return "linear"; }

  // Differentiates linear [LIN-1]: computes dx [LIN-2], dW [LIN-3] and db [LIN-4].
  void backward(NodeGrads& grads) {
    const Tensor& dy = grads.dy();
    const Device device = dy.device();
    const std::int64_t rows = dy.shape().without(-1).elements(), in = x.shape()[-1], out = dy.shape()[-1];
    if (const auto [dx, mode] = grads.place(0, dy.dtype()); dx.defined())
      gemm(device, dy.dtype(), {.m = rows, .n = in, .k = out, .beta = beta(mode)}, dx.raw(), dy.raw(),
           weight.raw());  // [LIN-2]
    dispatch_floating(name(), dy.dtype(), [&]<class T>(Type<T>) {
      const ParameterGradOut<T> db = has_bias ? grads.out<compute_t<T>>(2) : ParameterGradOut<T>{};
      if (weight_gradient(grads, db) || !db) return;
      const ColumnTotals<T> sums{.out = db, .values = dy.data<T>(), .rows = rows, .columns = out};
      FOLDGRAD_RUN(device, column_sums, sums);  // [LIN-4]
    });
  }

  void describe(Description& d) const {
    d.weight = 1;
    if (has_bias) d.bias = 2;
    d.onnx = [this](OnnxGraph& g, const OnnxOperands& in) {
      const std::string product = g.node("MatMul", {in[0], in.matrix(1, weight)});
      return has_bias ? g.node("Add", {product, in[2]}) : product;
    };
  }

 private:
  // Writes dW. Returns true if the same product has written db, too.
  template <class Sum>
  bool weight_gradient(NodeGrads& grads, const GradOut<Sum>& db) const {
    const auto [dw, mode] = grads.place(1, grads.sum_dtype(1));
    if (!dw.defined()) return false;
    const Tensor& dy = grads.dy();
    const Gemm product{.transpose_a = true,
                       .m = dy.shape()[-1],
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

// Computes and records y. `bias` is null if there is none.
Var product(const Var& xv, const Var& weightv, const Var* biasv) {
  const Tensor &x = xv.value(), &weight = weightv.value();
  check_floating("linear", "x", x, 1);
  check_floating("linear", "weight", weight, 1);
  const std::int64_t in = x.shape()[-1], out = weight.shape()[0];
  check_operand("linear", "weight", weight, {out, in}, x, "x");
  if (biasv) check_operand("linear", "bias", biasv->value(), {out}, x, "x");
  const Tensor y = Tensor::empty(x.shape().with(-1, out), x.dtype(), x.device());
  const Gemm g{.transpose_b = true, .m = x.shape().without(-1).elements(), .n = out, .k = in};
  gemm(x.device(), x.dtype(), g, y.raw(), x.raw(), weight.raw(), biasv ? biasv->value().raw() : nullptr);  // [LIN-1]
  const LinearNode node{.x = x, .weight = weight, .has_bias = biasv != nullptr};
  return biasv ? xv.tape().record(y, {xv, weightv, *biasv}, node) : xv.tape().record(y, {xv, weightv}, node);
}

}  // namespace

Var linear(const Var& x, const Var& weight) { return product(x, weight, nullptr); }
Var linear(const Var& x, const Var& weight, const Var& bias) { return product(x, weight, &bias); }

}  // namespace foldgrad
