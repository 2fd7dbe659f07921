#include "engine/dispatch.h"
#include "engine/graph/channel_map.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad {

ChannelNormOptions ChannelNormOptions::bn() {
  return {.statistic = ChannelStatistic::variance,
          .forward = ForwardAverage::none,
          .backward = BackwardAverage::none,
          .hold_non_finite = false};
}
ChannelNormOptions ChannelNormOptions::rbn() {
  ChannelNormOptions o = bn();
  o.alpha_forward = 0.95;
  o.clamped_variance = true;
  return o;
}
ChannelNormOptions ChannelNormOptions::qmbn() {
  ChannelNormOptions o = bn();
  o.statistic = ChannelStatistic::mean_square;
  return o;
}
ChannelNormOptions ChannelNormOptions::mabn() {
  return {.forward = ForwardAverage::exponential,
          .backward = BackwardAverage::arithmetic,
          .warmup = 100,
          .alpha_forward = 0.98,
          .alpha_backward = 0.98};
}
ChannelNormOptions ChannelNormOptions::mabn_released() {
  ChannelNormOptions o = mabn();
  o.forward = ForwardAverage::arithmetic;
  o.rescale = Rescale::both;
  o.hold_non_finite = o.finite_state = false;
  return o;
}
ChannelNormOptions ChannelNormOptions::pn_star() {
  return {.forward = ForwardAverage::exponential, .backward = BackwardAverage::exponential, .warmup = 10000};
}
ChannelNormOptions ChannelNormOptions::un() { return {}; }
ChannelNormOptions ChannelNormOptions::un_released() {
  return {.form = ChannelForm::released, .hold_non_finite = false, .finite_state = false, .rescale = Rescale::backward};
}

ChannelNormState ChannelNormState::create(const ChannelNormOptions& o, std::int64_t channels, DType dtype,
                                          Device device) {
  FOLDGRAD_CHECK(dtype == DType::f32 || dtype == DType::f64, "channel_norm: state must be f32 or f64, got {}",
                 name(dtype));
  ChannelNormState s;
  const auto zeros = [&](Shape shape) { return Tensor::zeros(std::move(shape), dtype, device); };
  s.iters = Tensor::zeros({}, DType::i64, device);
  s.skips = Tensor::zeros({}, DType::i64, device);
  if (o.hold_on_skip) s.skips_in_a_row = Tensor::zeros({channels}, DType::i64, device);
  s.run_var = Tensor::full({channels}, 1, dtype, device);
  if (o.statistic == ChannelStatistic::variance) s.run_mean = zeros({channels});
  if (channel_norm_math::has_window(o.forward)) s.win_sq = zeros({o.window_forward, channels});
  if (channel_norm_math::has_window(o.backward)) s.win_g = zeros({o.window_backward, channels});
  if (channel_norm_math::has_ema(o.backward)) s.psi_ema = zeros({channels});
  return s;
}

NamedTensors ChannelNormState::named() const {
  NamedTensors all{
      {"run_mean", run_mean}, {"run_var", run_var}, {"psi_ema", psi_ema}, {"win_sq", win_sq},
      {"win_g", win_g},       {"iters", iters},     {"skips", skips},     {"skips_in_a_row", skips_in_a_row}};
  std::erase_if(all, [](const auto& buffer) { return !buffer.second.defined(); });
  return all;
}

AffineMap channel_affine(const ChannelNormState& state, const Tensor& gamma, const Tensor& beta,
                         const ChannelNormOptions& options) {
  const auto host = [](const Tensor& t) { return t.to(Device::cpu).to(DType::f64); };
  const Tensor variance = host(state.run_var);
  check_operand("channel_affine", "gamma", host(gamma), variance.shape(), variance, "the state");
  check_operand("channel_affine", "beta", host(beta), variance.shape(), variance, "the state");
  const Tensor mean = state.run_mean.defined() ? host(state.run_mean) : Tensor::zeros(variance.shape(), DType::f64);
  AffineMap map = AffineMap::of(gamma, beta);
  for (std::size_t c = 0; c < map.A.size(); ++c) {
    map.A[c] *= channel_norm_math::rstd(variance.data<double>()[c], options);  // [CN-4]
    map.B[c] -= map.A[c] * mean.data<double>()[c];
  }
  return map;
}

}  // namespace foldgrad
