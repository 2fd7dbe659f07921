#include "ops/affine/affine.h"

#include "engine/cpu/row_op.h"
#include "engine/graph/description.h"
#include "engine/graph/onnx_graph.h"
#include "engine/node_grads.h"
#include "ops/affine/affine_kernels.h"
#include "ops/total/total.h"

namespace foldgrad {
namespace {

struct AffineNode {
  Tensor x, gamma;

  const char* name() const { return "affine"; }

  // Differentiates affine [AFF-1]: computes dx, dgamma and dbeta [AFF-2].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const AffineBackward<T> p{.dx = grads.out<T>(0),
                                .dgamma = grads.out<compute_t<T>>(1),
                                .dbeta = grads.out<compute_t<T>>(2),
                                .dy = grads.dy().data<T>(),
                                .x = x.data<T>(),
                                .gamma = gamma.data<T>(),
                                .rows = x.shape().without(-1).elements(),
                                .columns = gamma.size()};
      FOLDGRAD_RUN(x.device(), elements_and_column_sums, p);
    });
  }
  void describe(Description&) const {}
};

struct ScaleByNode {
  Tensor x, eta;

  const char* name() const { return "scale_by"; }

  // Differentiates scale_by [AFF-3]: computes dx and deta [AFF-4].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t C = x.shape()[-1];
      const Tensor per_column = grads.wanted(1) ? Tensor::empty({C}, dtype_of<Value>, x.device()) : Tensor();
      const ScaleByBackward<T> p{.dx = grads.out<T>(0),
                                 .columns_of_deta = {.data = data_or_null<Value>(per_column)},
                                 .dy = grads.dy().data<T>(),
                                 .x = x.data<T>(),
                                 .eta = eta.data<T>(),
                                 .rows = x.shape().without(-1).elements(),
                                 .columns = C};
      FOLDGRAD_RUN(x.device(), elements_and_column_sums, p);
      if (per_column.defined()) {
        const Total<T> deta{.out = grads.out<compute_t<T>>(1), .values = per_column.data<Value>(), .columns = C};
        FOLDGRAD_RUN(x.device(), row_op, deta);
      }
    });
  }
  void describe(Description& d) const {
    d.onnx = [](OnnxGraph& g, const OnnxOperands& in) { return g.node("Mul", {in[0], in[1]}); };
  }
};

}  // namespace

Var affine(const Var& xv, const Var& gammav, const Var& betav) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const std::int64_t C = check_channels("affine", x, gamma, beta);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("affine", x.dtype(), [&]<class T>(Type<T>) {
    const AffineForward<T> p{.y = y.data<T>(),
                             .x = x.data<T>(),
                             .gamma = gamma.data<T>(),
                             .beta = beta.data<T>(),
                             .rows = x.shape().without(-1).elements(),
                             .columns = C};
    FOLDGRAD_RUN(x.device(), matrix, p);
  });
  return xv.tape().record(y, {xv, gammav, betav}, AffineNode{.x = x, .gamma = gamma});
}

Var scale_by(const Var& xv, const Var& etav) {
  const Tensor &x = xv.value(), &eta = etav.value();
  check_floating("scale_by", "x", x, 1);
  check_operand("scale_by", "eta", eta, {1}, x, "x");
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_floating("scale_by", x.dtype(), [&]<class T>(Type<T>) {
    const ScaleByForward<T> p{.y = y.data<T>(),
                              .x = x.data<T>(),
                              .eta = eta.data<T>(),
                              .rows = x.shape().without(-1).elements(),
                              .columns = x.shape()[-1]};
    FOLDGRAD_RUN(x.device(), matrix, p);
  });
  return xv.tape().record(y, {xv, etav}, ScaleByNode{.x = x, .eta = eta});
}

}  // namespace foldgrad
