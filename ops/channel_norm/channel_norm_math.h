// The formulas of channel_norm for one channel, in f64. S is the type of the stored state.
#pragma once
#include <cmath>

#include "engine/dtype.h"
#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad::channel_norm_math {

FOLDGRAD_HD inline double rstd(double variance, const ChannelNormOptions& o) {
  if (!o.clamped_variance) return 1 / std::sqrt(variance + o.eps);
  return 1 / std::sqrt(variance < o.eps ? o.eps : variance);  // [RBN-1]
}
FOLDGRAD_HD inline double ema(double alpha, double old_value, double new_value) {
  return alpha * old_value + (1 - alpha) * new_value;
}
// Returns false for NaN and infinity.
FOLDGRAD_HD inline bool finite(double v) { return std::fabs(v) <= 1.7976931348623157e308; }
// Returns q rounded to the type of the state, or q itself if the rounded value would be infinite.
template <class S>
FOLDGRAD_HD double as_stored(double q) {
  return finite(double(S(q))) ? double(S(q)) : q;
}
// Stores a value of the state. With finite_state, drops a value that is not finite and would spoil later iterations.
template <class S>
FOLDGRAD_HD void store(const ChannelNormOptions& o, S& state, double value) {
  if (!o.finite_state || finite(double(S(value)))) state = S(value);
}

FOLDGRAD_HD inline bool has_window(ForwardAverage a) {
  return a == ForwardAverage::arithmetic || a == ForwardAverage::geometric;
}
FOLDGRAD_HD inline bool has_window(BackwardAverage a) {
  return a == BackwardAverage::arithmetic || a == BackwardAverage::arithmetic_exponential;
}
FOLDGRAD_HD inline bool has_ema(BackwardAverage a) {
  return a == BackwardAverage::exponential || a == BackwardAverage::arithmetic_exponential;
}

// Returns true if iteration t normalizes with an average. With a window, t must exceed M: the window before t is then
// full as well, so that averages and the outlier test begin together.
FOLDGRAD_HD inline bool active(const ChannelNormOptions& o, double t) {
  if (o.forward == ForwardAverage::none && o.backward == BackwardAverage::none) return false;
  return t >= double(o.warmup) && (!has_window(o.forward) || (o.window_forward > 1 && t > double(o.window_forward)));
}
FOLDGRAD_HD inline bool filters(const ChannelNormOptions& o, double t) {
  return o.filtration && (o.form == ChannelForm::released ? t >= double(o.warmup) : active(o, t));
}

// A channel's window: its last M statistics, in a column of [M, columns]. If slot >= 0, `value` replaces that entry.
template <class S>
struct Window {
  const S* first;
  std::int64_t length, stride;
  std::int64_t slot = -1;
  double value = 0;

  FOLDGRAD_HD double at(std::int64_t k) const { return k == slot ? value : double(first[k * stride]); }
  FOLDGRAD_HD Window with(std::int64_t k, double v) const { return {first, length, stride, k, v}; }
};

template <class S>
FOLDGRAD_HD double arithmetic_mean(const Window<S>& window) {
  double sum = 0;
  for (std::int64_t k = 0; k < window.length; ++k) sum += window.at(k);
  return sum / double(window.length);
}
// Treats entries below `floor` as `floor`, which avoids log(0) unless `floor` is 0.
template <class S>
FOLDGRAD_HD double geometric_mean(const Window<S>& window, double floor) {
  double logs = 0;
  for (std::int64_t k = 0; k < window.length; ++k) logs += std::log(window.at(k) < floor ? floor : window.at(k));
  return std::exp(logs / double(window.length));  // [UN-16]
}
template <class S>
FOLDGRAD_HD double variance_of_roots(const Window<S>& window, int ddof) {
  double sum = 0, squares = 0;
  for (std::int64_t k = 0; k < window.length; ++k) sum += std::sqrt(window.at(k));
  const double mean = sum / double(window.length);
  for (std::int64_t k = 0; k < window.length; ++k) {
    const double d = std::sqrt(window.at(k)) - mean;
    squares += d * d;
  }
  return squares / double(window.length - ddof);
}
// Returns the lower bound for entries in the geometric mean. The released code has none: log(0) makes the mean 0.
FOLDGRAD_HD inline double least_entry(const ChannelNormOptions& o) {
  return o.form == ChannelForm::released ? 0 : 1e-38;
}

// Returns the factor r of the released forms: sqrt(var_hat + eps) / sqrt(run_var + eps).
FOLDGRAD_HD inline double rescale(const ChannelNormOptions& o, double t, double var_hat, double run_var) {
  const double first = double(o.warmup > 1000 ? o.warmup : 1000);
  if (o.rescale == Rescale::none || t <= first) return 1;
  const double r = std::sqrt(var_hat + o.eps) / std::sqrt(run_var + o.eps);
  return r < 0.2 ? 0.2 : r > 5 ? 5 : r;  // [MABN-1]
}

}  // namespace foldgrad::channel_norm_math
