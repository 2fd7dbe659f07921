#include "ops/layer_norm/layer_norm.h"

#include "engine/cpu/row_op.h"
#include "engine/node_grads.h"
#include "ops/layer_norm/layer_norm_kernels.h"

namespace foldgrad {
namespace {

struct LayerNormNode {
  Tensor x, gamma, mu, rstd;  // backward recomputes xhat from x, mu and rstd instead of saving R * C values

  const char* name() const { return "layer_norm"; }

  // Differentiates layer_norm [LN-1, LN-2, LN-3]: computes dx [LN-4], dgamma and dbeta [LN-5].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const LayerNormBackward<T> p{.dx = grads.out<T>(0),
                                   .dgamma = grads.out<compute_t<T>>(1),
                                   .dbeta = grads.out<compute_t<T>>(2),
                                   .dy = grads.dy().data<T>(),
                                   .x = x.data<T>(),
                                   .gamma = gamma.data<T>(),
                                   .mu = mu.data<Value>(),
                                   .rstd = rstd.data<Value>(),
                                   .rows = mu.size(),
                                   .columns = gamma.size()};
      FOLDGRAD_RUN(x.device(), row_op_with_column_sums, p);
    });
  }
  void describe(Description&) const {}
};

}  // namespace

Var layer_norm(const Var& xv, const Var& gammav, const Var& betav, double eps) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const std::int64_t C = check_channels("layer_norm", x, gamma, beta), R = C ? x.size() / C : 0;
  FOLDGRAD_CHECK(eps > 0, "layer_norm: eps must be positive, got {}", eps);

  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating("layer_norm", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor mu = Tensor::empty({R}, dtype_of<Value>, x.device()),
                 rstd = Tensor::empty({R}, dtype_of<Value>, x.device());
    const LayerNormForward<T> p{.y = y.data<T>(),
                                .mu = mu.data<Value>(),
                                .rstd = rstd.data<Value>(),
                                .x = x.data<T>(),
                                .gamma = gamma.data<T>(),
                                .beta = beta.data<T>(),
                                .rows = R,
                                .columns = C,
                                .eps = Value(eps)};
    FOLDGRAD_RUN(x.device(), row_op, p);
    return xv.tape().record(y, {xv, gammav, betav}, LayerNormNode{.x = x, .gamma = gamma, .mu = mu, .rstd = rstd});
  });
}

}  // namespace foldgrad
