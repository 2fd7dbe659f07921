#include "ops/rms_norm/rms_norm.h"

#include "engine/cpu/row_op.h"
#include "engine/node_grads.h"
#include "ops/rms_norm/rms_norm_kernels.h"

namespace foldgrad {
namespace {

struct RmsNormNode {
  Tensor x, gamma, rrms, weight;  // backward recomputes xhat from x and rrms instead of saving R * C values
  std::int64_t k;

  const char* name() const { return "rms_norm"; }

  // Differentiates rms_norm [RMS-1, RMS-2]: computes dx [RMS-3] and dgamma [RMS-4]; with eps outside, w in dx is
  // [RMS-6].
  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      const auto run = [&](auto partial) {
        const RmsNormBackward<T, partial()> p{.dx = grads.out<T>(0),
                                              .dgamma = grads.out<compute_t<T>>(1),
                                              .dy = grads.dy().data<T>(),
                                              .x = x.data<T>(),
                                              .gamma = gamma.data<T>(),
                                              .rrms = rrms.data<compute_t<T>>(),
                                              .weight = weight.data<compute_t<T>>(),
                                              .rows = rrms.size(),
                                              .columns = gamma.size(),
                                              .k = k};
        FOLDGRAD_RUN(x.device(), row_op_with_column_sums, p);
      };
      k < gamma.size() ? run(std::true_type()) : run(std::false_type());
    });
  }
  void describe(Description&) const {}
};

}  // namespace

Var rms_norm(const Var& x, const Var& gamma, double eps) { return rms_norm(x, gamma, RmsNormOptions{.eps = eps}); }

Var rms_norm(const Var& xv, const Var& gammav, const RmsNormOptions& options) {
  const Tensor &x = xv.value(), &gamma = gammav.value();
  check_floating("rms_norm", "x", x, 1);
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  check_operand("rms_norm", "gamma", gamma, {C}, x, "x");
  FOLDGRAD_CHECK(options.eps > 0, "rms_norm: eps must be positive, got {}", options.eps);
  FOLDGRAD_CHECK(options.channels >= 0 && options.channels <= C,
                 "rms_norm: the mean must be over at most {} channels, got {}", C, options.channels);
  const std::int64_t k = options.channels ? options.channels : C;

  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating("rms_norm", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor rrms = Tensor::empty({R}, dtype_of<Value>, x.device()),
                 weight = Tensor::empty({R}, dtype_of<Value>, x.device());
    const auto run = [&](auto partial) {
      const RmsNormForward<T, partial()> p{.y = y.data<T>(),
                                           .rrms = rrms.data<Value>(),
                                           .weight = weight.data<Value>(),
                                           .x = x.data<T>(),
                                           .gamma = gamma.data<T>(),
                                           .rows = R,
                                           .columns = C,
                                           .k = k,
                                           .eps = Value(options.eps),
                                           .eps_outside = options.eps_outside};
      FOLDGRAD_RUN(x.device(), row_op, p);
    };
    k < C ? run(std::true_type()) : run(std::false_type());
    return xv.tape().record(y, {xv, gammav},
                            RmsNormNode{.x = x, .gamma = gamma, .rrms = rrms, .weight = weight, .k = k});
  });
}

}  // namespace foldgrad
