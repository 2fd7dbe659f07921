#include "train/analyses/channel_values.h"

#include <algorithm>
#include <cmath>

#include "ops/channel_norm/channel_norm_forward.h"
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad {
namespace {

// Returns d var_hat / d q of one channel (ops/channel_norm/channel_norm_forward.h).
double slope_of(const ChannelNormOptions& o, bool averaged, std::uint8_t flags, double q, double var_hat) {
  using Context = ChannelContext<double>;
  if (flags & (Context::kHeld | Context::kConstant)) return 0;
  if (flags & Context::kSkip || !averaged) return 1;
  const auto M = double(o.window_forward);
  switch (o.forward) {
    case ForwardAverage::none:
      break;
    case ForwardAverage::arithmetic:
      return 1 / M;
    case ForwardAverage::geometric:
      return q > channel_norm_math::least_entry(o) ? var_hat / (M * q) : 0;
    case ForwardAverage::exponential:
      return 1 - o.alpha_forward;
  }
  return 1;
}

std::vector<double> on_host(const Tensor& t) {
  if (!t.defined()) return {};
  return t.to(Device::cpu).to(DType::f64).values<double>();
}

}  // namespace

ChannelValues channel_values(const ChannelRecord& record) {
  const std::vector<double> mean = on_host(record.moments.mean), sum = on_host(record.gradient_sum),
                            gain = on_host(record.gain), rstd = on_host(record.rstd), factor = on_host(record.x_factor);
  const double n = double(record.moments.count);
  ChannelValues values;
  values.q = on_host(record.moments.square);
  values.G = sum;
  for (std::size_t c = 0; c < values.q.size(); ++c) values.q[c] += mean[c] * mean[c];
  for (std::size_t c = 0; c < sum.size(); ++c) values.G[c] = sum[c] / n * (gain.empty() ? 1 : gain[c] * rstd[c]);
  const double eps = record.options.clamped_variance ? 0 : record.options.eps;
  for (const double r : rstd) values.var_hat.push_back(std::max(1 / (r * r) - eps, 0.0));
  for (std::size_t c = 0; c < factor.size(); ++c) values.psi.push_back(factor[c] / (rstd[c] * rstd[c]));
  if (record.flags.defined()) values.flags = record.flags.values<std::uint8_t>();
  if (!record.gradient.square.defined()) return values;
  values.averaged = record.options.forward != ForwardAverage::none &&
                    channel_norm_math::active(record.options, record.iteration.item());
  values.rstd = rstd;
  values.h_square = on_host(record.gradient.square);
  for (std::size_t c = 0; c < gain.size(); ++c) {
    values.h_square[c] *= gain[c] * gain[c];
    values.slope.push_back(slope_of(record.options, values.averaged, values.flags[c], values.q[c], values.var_hat[c]));
  }
  return values;
}

GradientAgreement gradient_agreement(const ChannelValues& v) {
  double both = 0, ours = 0, exact = 0, below = 0, counted = 0;
  for (std::size_t c = 0; c < v.q.size(); ++c) {
    const double k = v.rstd[c] * v.rstd[c], psi = v.psi[c], true_psi = v.slope[c] * v.G[c];
    const auto product = [&](double a, double b) {
      return (v.h_square[c] - (a + b) * v.G[c] + a * b * v.q[c] * k) * k;
    };
    both += product(psi, true_psi);
    ours += product(psi, psi);
    exact += product(true_psi, true_psi);
    if (!v.averaged || v.flags[c]) continue;
    below += v.var_hat[c] < v.q[c];
    ++counted;
  }
  return {both / std::sqrt(ours * exact), std::sqrt(ours / exact), below / counted};
}

}  // namespace foldgrad
