#include "ops/group_norm/group_norm.h"

#include "ops/group_norm/group_norm_kernels.h"

namespace foldgrad {
namespace {

const std::uint8_t* data_or_null(const Tensor& mask) { return mask.defined() ? mask.data<std::uint8_t>() : nullptr; }

struct GroupNormNode {
  Tensor x, gamma, mask, mu, rstd, weight;

  const char* name() const { return "group_norm"; }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) {
      using Value = compute_t<T>;
      const std::int64_t S = weight.size(), C = gamma.size(), N = x.size() / std::max<std::int64_t>(S * C, 1);
      const GroupNormBackward<T> p{.dx = grads.out<T>(0),
                                   .dgamma = grads.exact_out<T>(1),
                                   .dbeta = grads.exact_out<T>(2),
                                   .dy = grads.dy().data<T>(),
                                   .x = x.data<T>(),
                                   .gamma = gamma.data<T>(),
                                   .mu = mu.data<Value>(),
                                   .rstd = rstd.data<Value>(),
                                   .weight = weight.data<Value>(),
                                   .mask = data_or_null(mask),
                                   .samples = S,
                                   .positions = N,
                                   .columns = C,
                                   .groups = mu.shape()[1],
                                   .rows = x.device() == Device::cpu ? S : S * N};
      FOLDGRAD_RUN(x.device(), group_norm, p);
    });
  }
};

}  // namespace

Var group_norm(const Var& xv, const Var& gammav, const Var& betav, std::int64_t groups, GroupAxes axes,
               const Tensor* mask, double eps) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  check_floating("group_norm", "x", x, 2);
  const std::int64_t C = x.shape()[-1], rows = x.shape().without(-1).elements();
  FOLDGRAD_CHECK(groups >= 1 && C % groups == 0, "group_norm: groups must divide {} channels, got {}", C, groups);
  check_operand("group_norm", "gamma", gamma, {C}, x, "x");
  check_operand("group_norm", "beta", beta, {C}, x, "x");
  if (mask) check_operand("group_norm", "mask", *mask, x.shape().without(-1), DType::u8, x, "x");
  FOLDGRAD_CHECK(eps > 0, "group_norm: eps must be positive, got {}", eps);
  const std::int64_t S = axes == GroupAxes::sample ? x.shape()[0] : rows;
  // Every token is a sample by itself, and has only itself to be normalised with.
  const Tensor real = mask && axes == GroupAxes::sample ? *mask : Tensor();

  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  return dispatch_floating("group_norm", x.dtype(), [&]<class T>(Type<T>) {
    using Value = compute_t<T>;
    const Tensor mu = Tensor::empty({S, groups}, dtype_of<Value>, x.device()),
                 rstd = Tensor::empty({S, groups}, dtype_of<Value>, x.device()),
                 weight = Tensor::empty({S}, dtype_of<Value>, x.device());
    const GroupNormForward<T> p{.y = y.data<T>(),
                                .mu = mu.data<Value>(),
                                .rstd = rstd.data<Value>(),
                                .weight = weight.data<Value>(),
                                .x = x.data<T>(),
                                .gamma = gamma.data<T>(),
                                .beta = beta.data<T>(),
                                .mask = data_or_null(real),
                                .samples = S,
                                .positions = S ? rows / S : 0,
                                .columns = C,
                                .groups = groups,
                                .eps = Value(eps)};
    FOLDGRAD_RUN(x.device(), group_norm, p);
    return xv.tape().record(
        y, {xv, gammav, betav},
        GroupNormNode{.x = x, .gamma = gamma, .mask = real, .mu = mu, .rstd = rstd, .weight = weight});
  });
}

}  // namespace foldgrad
