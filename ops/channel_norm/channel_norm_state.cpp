
#include "engine/dispatch.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad {

ChannelNormOptions ChannelNormOptions::bn() {
  ChannelNormOptions o;
  o.statistic = ChannelStatistic::variance;
  o.forward = ForwardAverage::none;
  o.backward = BackwardAverage::none;
  o.hold_non_finite = false;
  return o;
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
  ChannelNormOptions o;
  o.forward = ForwardAverage::exponential;
  o.backward = BackwardAverage::arithmetic;
  o.alpha_forward = o.alpha_backward = 0.98;
  o.warmup = 100;
  return o;
}
ChannelNormOptions ChannelNormOptions::mabn_released() {
  ChannelNormOptions o = mabn();
  o.forward = ForwardAverage::arithmetic;
  o.rescale = Rescale::both;
  o.hold_non_finite = false;
  return o;
}
ChannelNormOptions ChannelNormOptions::pn_star() {
  ChannelNormOptions o;
  o.forward = ForwardAverage::exponential;
  o.backward = BackwardAverage::exponential;
  o.warmup = 10000;
  return o;
}
ChannelNormOptions ChannelNormOptions::un() { return {}; }
ChannelNormOptions ChannelNormOptions::un_released() {
  ChannelNormOptions o;
  o.form = ChannelForm::released;
  o.granularity = Granularity::pooled;
  o.rescale = Rescale::backward;
  o.hold_non_finite = false;
  return o;
}

namespace {

template <class State, class Body>
void for_each_buffer(State& s, const Body& body) {
  body("run_mean", s.run_mean);
  body("run_var", s.run_var);
  body("psi_ema", s.psi_ema);
  body("win_sq", s.win_sq);
  body("win_g", s.win_g);
  body("iters", s.iters);
  body("skips", s.skips);
}

}  // namespace

ChannelNormState ChannelNormState::create(const ChannelNormOptions& o, std::int64_t channels, DType dtype,
                                          Device device) {
  FOLDGRAD_CHECK(dtype == DType::f32 || dtype == DType::f64, "channel_norm: state must be f32 or f64, got {}",
                 name(dtype));
  ChannelNormState s;
  const auto zeros = [&](Shape shape) { return Tensor::zeros(std::move(shape), dtype, device); };
  s.iters = Tensor::zeros({}, DType::i64, device);
  s.skips = Tensor::zeros({}, DType::i64, device);
  s.run_var = Tensor::full({channels}, 1, dtype, device);
  if (o.statistic == ChannelStatistic::variance) s.run_mean = zeros({channels});
  if (channel_norm_math::has_window(o.forward)) s.win_sq = zeros({o.window_forward, channels});
  if (channel_norm_math::has_window(o.backward)) s.win_g = zeros({o.window_backward, channels});
  if (channel_norm_math::has_ema(o.backward)) s.psi_ema = zeros({channels});
  return s;
}

NamedTensors ChannelNormState::named() const {
  NamedTensors all;
  for_each_buffer(*this, [&](const char* name, const Tensor& t) {
    if (t.defined()) all[name] = t;
  });
  return all;
}

ChannelNormState ChannelNormState::snapshot() const {
  ChannelNormState copy = *this;
  for_each_buffer(copy, [](const char*, Tensor& t) {
    if (t.defined()) t = t.clone();
  });
  return copy;
}

void ChannelNormState::restore(const ChannelNormState& snapshot) const {
  copy_into("channel_norm", named(), snapshot.named());
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
