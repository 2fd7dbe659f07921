#include "ops/center_norm/center_norm.h"

#include "engine/cpu/row_op.h"
#include "engine/node_grads.h"
#include "ops/center_norm/center_norm_kernels.h"

namespace foldgrad {
namespace {

double factor(std::int64_t C) { return double(C) / double(C - 1); }

struct CenterNormNode {
  Tensor x, gamma, mu;

  const char* name() const { return "center_norm"; }

  // Differentiates center_norm [CEN-1, CEN-2]: computes dx [CEN-3], dgamma and dbeta [CEN-4].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const CenterNormBackward<T> p{.dx = grads.out<T>(0),
                                    .dgamma = grads.out<compute_t<T>>(1),
                                    .dbeta = grads.out<compute_t<T>>(2),
                                    .dy = grads.dy().data<T>(),
                                    .x = x.data<T>(),
                                    .gamma = gamma.data<T>(),
                                    .mu = mu.data<Value>(),
                                    .rows = mu.size(),
                                    .columns = gamma.size(),
                                    .k = Value(factor(gamma.size()))};
      FOLDGRAD_RUN(x.device(), row_op_with_column_sums, p);
    });
  }
  void describe(Description&) const {}
};

}  // namespace

Var center_norm(const Var& xv, const Var& gammav, const Var& betav) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const std::int64_t C = check_channels("center_norm", x, gamma, beta), R = x.shape().without(-1).elements();
  FOLDGRAD_CHECK(C >= 2, "center_norm: x must have at least 2 channels, got {}", describe(x));
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating("center_norm", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor mu = Tensor::empty({R}, dtype_of<Value>, x.device());
    const CenterNormForward<T> p{.y = y.data<T>(),
                                 .mu = mu.data<Value>(),
                                 .x = x.data<T>(),
                                 .gamma = gamma.data<T>(),
                                 .beta = beta.data<T>(),
                                 .rows = R,
                                 .columns = C,
                                 .k = Value(factor(C))};
    FOLDGRAD_RUN(x.device(), row_op, p);
    return xv.tape().record(y, {xv, gammav, betav}, CenterNormNode{.x = x, .gamma = gamma, .mu = mu});
  });
}

}  // namespace foldgrad
