#include "ops/rms_norm/rms_norm.h"

#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {
namespace {

struct RmsNormNode final : Node {
  Tensor x, gamma, rrms;  // xhat is recomputed: it costs a multiplication and would keep R C values

  RmsNormNode(Tensor x, Tensor gamma, Tensor rrms) : x(x), gamma(gamma), rrms(rrms) {}
  const char* name() const override { return "rms_norm"; }

  void backward(NodeGrads& grads) override {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const RmsNormBackward<T> p{.dx = grads.out<T>(0),
                                 .dgamma = grads.out<T>(1),
                                 .dy = grads.dy().data<T>(),
                                 .x = x.data<T>(),
                                 .gamma = gamma.data<T>(),
                                 .rrms = rrms.data<compute_t<T>>(),
                                 .rows = rrms.size(),
                                 .columns = gamma.size()};
      FOLDGRAD_RUN(x.device(), rms_norm, p);
    });
  }
};

}  // namespace

Var rms_norm(const Var& xv, const Var& gammav, double eps) {
  const Tensor &x = xv.value(), &gamma = gammav.value();
  check_floating("rms_norm", "x", x, 1);
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  check_operand("rms_norm", "gamma", gamma, {C}, x, "x");
  FOLDGRAD_CHECK(eps > 0, "rms_norm: eps must be positive, got {}", eps);

  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating("rms_norm", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor rrms = Tensor::empty({R}, dtype_of<Value>, x.device());
    const RmsNormForward<T> p{.y = y.data<T>(),
                              .rrms = rrms.data<Value>(),
                              .x = x.data<T>(),
                              .gamma = gamma.data<T>(),
                              .rows = R,
                              .columns = C,
                              .eps = Value(eps)};
    FOLDGRAD_RUN(x.device(), rms_norm, p);
    return xv.tape().record(y, {xv, gammav}, RmsNormNode(x, gamma, rrms));
  });
}

}  // namespace foldgrad
