#include "ops/scale_norm/scale_norm.h"

#include "engine/cpu/row_op.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/scale_norm/scale_norm_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

// The operands are x and, for scale_norm, g.
struct ScaleNormNode {
  Tensor x, g, rnorm;
  double eps;

  const char* name() const { return g.defined() ? "scale_norm" : "unit_rows"; }

  // Differentiates scale_norm [SN-1] and unit_rows [FN-1]: computes dx [SN-2] and, for scale_norm, dg [SN-3].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t R = rnorm.size();
      const Tensor dy_u = Tensor::empty({R}, dtype_of<Value>, x.device());
      const ScaleNormBackward<T> p{.dx = grads.out<T>(0),
                                   .dy_u = dy_u.data<Value>(),
                                   .dy = grads.dy().data<T>(),
                                   .x = x.data<T>(),
                                   .g = data_or_null<T>(g),
                                   .rnorm = rnorm.data<Value>(),
                                   .rows = R,
                                   .columns = x.shape()[-1],
                                   .eps = Value(eps)};
      FOLDGRAD_RUN(x.device(), row_op, p);
      if (g.defined() && grads.wanted(1)) {
        const Total<T> dg{.out = grads.out<compute_t<T>>(1), .values = p.dy_u, .columns = R};
        FOLDGRAD_RUN(x.device(), row_op, dg);
      }
    });
  }

  void describe(Description& d) const {
    d.onnx = [this](OnnxGraph& graph, const OnnxOperands& in) {
      FOLDGRAD_CHECK(!g.defined(), "onnx: scale_norm with g must be exported as the inference form of a normalizer");
      const std::string length =
          graph.node("ReduceL2", {in[0]}, {{"axes", OnnxGraph::Sizes{-1}}, {"keepdims", std::int64_t(1)}});
      return graph.node("Div", {in[0], graph.node("Max", {length, graph.number(eps)})});
    };
  }
};

Var record(const char* op, const std::vector<Var>& operands, const Tensor& g, double eps) {
  const Tensor& x = operands[0].value();
  check_floating(op, "x", x, 1);
  if (operands.size() == 2) check_operand(op, "g", g, {1}, x, "x");
  FOLDGRAD_CHECK(eps > 0, "{}: eps must be positive, got {}", op, eps);
  const std::int64_t R = x.shape().without(-1).elements();
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating(op, x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor rnorm = Tensor::empty({R}, dtype_of<Value>, x.device());
    const ScaleNormForward<T> p{.y = y.data<T>(),
                                .rnorm = rnorm.data<Value>(),
                                .x = x.data<T>(),
                                .g = data_or_null<T>(g),
                                .rows = R,
                                .columns = x.shape()[-1],
                                .eps = Value(eps)};
    FOLDGRAD_RUN(x.device(), row_op, p);
    return operands[0].tape().record(y, operands, ScaleNormNode{.x = x, .g = g, .rnorm = rnorm, .eps = eps});
  });
}

}  // namespace

Var scale_norm(const Var& x, const Var& g, double eps) { return record("scale_norm", {x, g}, g.value(), eps); }
Var unit_rows(const Var& x, double eps) { return record("unit_rows", {x}, Tensor(), eps); }

}  // namespace foldgrad
