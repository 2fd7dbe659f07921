#include "ops/power_norm/power_norm.h"

#include "engine/cpu/elementwise.h"
#include "engine/graph/description.h"
#include "ops/channel_sums/channel_sums.h"
#include "ops/power_norm/power_norm_kernels.h"

namespace foldgrad {
namespace {

struct PowerNormNode {
  Tensor x, gamma, rstd, rstd_q;
  std::int64_t counted;  // -1 when not training
  PowerNormState state;
  double alpha;

  const char* name() const { return "power_norm"; }
  bool training() const { return counted >= 0; }
  void describe(Description& d) const { d.training = training(); }

  void backward(NodeGrads& grads) {
    dispatch_floating(name(), x.dtype(), [&]<class T>(Type<T>) { run<T>(grads); });
  }

 private:
  template <class T>
  void run(NodeGrads& grads) {
    using S = compute_t<T>;
    const std::int64_t C = gamma.size(), R = C ? x.size() / C : 0;
    const auto channels = [&](DType dtype) { return Tensor::empty({C}, dtype, x.device()); };
    const Tensor sum_dy = channels(DType::f64), sum_dy_x = channels(DType::f64), sum_xx = channels(DType::f64);
    const Tensor partials = Tensor::empty({channel_blocks(R), PowerNormSums<T>::kSums, C}, DType::f64, x.device());
    const T* dy = grads.dy().data<T>();
    const PowerNormSums<T> sums{.dy = dy,
                                .x = x.data<T>(),
                                .rows = R,
                                .columns = C,
                                .partials = partials.data<double>(),
                                .sums = {sum_dy.data<double>(), sum_dy_x.data<double>(), sum_xx.data<double>()}};
    FOLDGRAD_RUN(x.device(), power_norm_sums, sums);
    const Tensor dy_factor = channels(dtype_of<S>), x_factor = channels(dtype_of<S>);
    const PowerNormBackwardStep<T> step{.training = training(),
                                        .alpha = alpha,
                                        .rows = R,
                                        .n = C,
                                        .counted = counted,
                                        .sum_dy = sum_dy.data<double>(),
                                        .sum_dy_x = sum_dy_x.data<double>(),
                                        .sum_xx = sum_xx.data<double>(),
                                        .gamma = gamma.data<T>(),
                                        .rstd = rstd.data<S>(),
                                        .rstd_q = rstd_q.data<S>(),
                                        .nu_ema = state.nu_ema.data<S>(),
                                        .dgamma = grads.exact_out<T>(1),
                                        .dbeta = grads.exact_out<T>(2),
                                        .dy_factor = dy_factor.data<S>(),
                                        .x_factor = x_factor.data<S>()};
    FOLDGRAD_RUN(x.device(), elementwise, step);
    if (!grads.wanted(0)) return;
    const PowerNormGradient<T> gradient{.dx = grads.out<T>(0),
                                        .dy = dy,
                                        .x = x.data<T>(),
                                        .dy_factor = dy_factor.data<S>(),
                                        .x_factor = x_factor.data<S>(),
                                        .rows = R,
                                        .columns = C};
    FOLDGRAD_RUN(x.device(), matrix, gradient);
  }
};

void check_options(const PowerNormOptions& o) {
  FOLDGRAD_CHECK(o.eps >= 0, "power_norm: eps must not be negative, got {}", o.eps);
  for (double alpha : {o.alpha_forward, o.alpha_backward})
    FOLDGRAD_CHECK(alpha >= 0 && alpha <= 1, "power_norm: alpha must be in [0, 1], got {}", alpha);
}

// Compares with what create() would make, whose shapes and dtypes are thus said once.
void check_state(const PowerNormState& state, const Tensor& x) {
  const auto want = PowerNormState::create(x.shape()[-1], x.dtype() == DType::f64 ? DType::f64 : DType::f32).named();
  for (const auto& [name, tensor] : state.named())
    check_operand("power_norm", ("state." + name).c_str(), tensor, want.at(name).shape(), want.at(name).dtype(), x,
                  "x");
}

}  // namespace

PowerNormState PowerNormState::create(std::int64_t channels, DType dtype, Device device) {
  FOLDGRAD_CHECK(dtype == DType::f32 || dtype == DType::f64, "power_norm: state must be f32 or f64, got {}",
                 name(dtype));
  return {.phi = Tensor::full({channels}, 1, dtype, device),
          .nu_ema = Tensor::zeros({channels}, dtype, device),
          .iters = Tensor::zeros({}, DType::i64, device),
          .skips = Tensor::zeros({}, DType::i64, device)};
}

NamedTensors PowerNormState::named() const {
  return {{"phi", phi}, {"nu_ema", nu_ema}, {"iters", iters}, {"skips", skips}};
}

Var power_norm(const Var& xv, const Var& gammav, const Var& betav, const PowerNormState& state,
               const PowerNormOptions& options, bool training, std::optional<std::int64_t> given) {
  const Tensor &x = xv.value(), &gamma = gammav.value(), &beta = betav.value();
  const Device device = x.device();
  check_floating("power_norm", "x", x, 1);
  const std::int64_t C = x.shape()[-1], R = C ? x.size() / C : 0;
  check_operand("power_norm", "gamma", gamma, {C}, x, "x");
  check_operand("power_norm", "beta", beta, {C}, x, "x");
  check_options(options);
  check_state(state, x);

  const std::int64_t counted = counted_rows("power_norm", x, given);
  ChannelMoments moments;
  if (training) {
    moments = channel_moments(first_rows(x, counted), /*with_mean=*/false);
    const PowerNormCount count{state.iters.data<std::int64_t>(), state.skips.data<std::int64_t>(), counted};
    FOLDGRAD_RUN(device, elementwise, count);
  }
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  return dispatch_floating("power_norm", x.dtype(), [&]<class T>(Type<T>) {
    using S = compute_t<T>;
    const auto channels = [&] { return Tensor::empty({C}, dtype_of<S>, device); };
    const Tensor rstd = channels(), rstd_q = channels(), gain = channels();
    const PowerNormForwardStep<T> step{.n = C,
                                       .warmup = double(options.warmup),
                                       .alpha = options.alpha_forward,
                                       .eps = options.eps,
                                       .iters = state.iters.data<std::int64_t>(),
                                       .square = data_or_null<double>(moments.square),
                                       .counted = training ? counted : -1,
                                       .gamma = gamma.data<T>(),
                                       .phi = state.phi.data<S>(),
                                       .rstd = rstd.data<S>(),
                                       .rstd_q = rstd_q.data<S>(),
                                       .gain = gain.data<S>()};
    FOLDGRAD_RUN(device, elementwise, step);
    const PowerNormApply<T> apply{y.data<T>(), x.data<T>(), beta.data<T>(), gain.data<S>(), R, C};
    FOLDGRAD_RUN(device, matrix, apply);
    return xv.tape().record(y, {xv, gammav, betav},
                            PowerNormNode{.x = x,
                                          .gamma = gamma,
                                          .rstd = rstd,
                                          .rstd_q = rstd_q,
                                          .counted = training ? counted : -1,
                                          .state = state,
                                          .alpha = options.alpha_backward});
  });
}

AffineMap power_norm_affine(const PowerNormState& state, const Tensor& gamma, const Tensor& beta,
                            const PowerNormOptions& options) {
  ChannelNormState running;
  running.run_var = state.phi;
  ChannelNormOptions root;
  root.eps = options.eps;
  return channel_affine(running, gamma, beta, root);
}

}  // namespace foldgrad
