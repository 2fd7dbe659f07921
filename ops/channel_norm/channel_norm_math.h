// What channel_norm decides about one channel: scalar code that the CPU loop and the CUDA block both call. Everything
// is computed in f64; S is the type in which state is stored.
#pragma once
#include <cmath>

#include "engine/host_device.h"
#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad::channel_norm_math {

FOLDGRAD_HD inline double rstd(double variance, const ChannelNormOptions& o) {
  if (!o.clamped_variance) return 1 / std::sqrt(variance + o.eps);
  return 1 / std::sqrt(variance < o.eps ? o.eps : variance);  // [RBN-1]
}
FOLDGRAD_HD inline double ema(double alpha, double old_value, double new_value) {
  return alpha * old_value + (1 - alpha) * new_value;
}
// False for NaN too.
FOLDGRAD_HD inline bool finite(double v) { return std::fabs(v) <= 1.7976931348623157e308; }

FOLDGRAD_HD inline bool has_window(ForwardAverage a) {
  return a == ForwardAverage::arithmetic || a == ForwardAverage::geometric;
}
FOLDGRAD_HD inline bool has_window(BackwardAverage a) {
  return a == BackwardAverage::arithmetic || a == BackwardAverage::arithmetic_exponential;
}
FOLDGRAD_HD inline bool has_ema(BackwardAverage a) {
  return a == BackwardAverage::exponential || a == BackwardAverage::arithmetic_exponential;
}

// Whether iteration t normalises with an average. The first t with a full window is M + 1, when the window before it is
// full too, so that averages and the filter begin together.
FOLDGRAD_HD inline bool active(const ChannelNormOptions& o, double t) {
  if (o.forward == ForwardAverage::none && o.backward == BackwardAverage::none) return false;
  return t >= double(o.warmup) && (!has_window(o.forward) || (o.window_forward > 1 && t > double(o.window_forward)));
}
FOLDGRAD_HD inline bool filters(const ChannelNormOptions& o, double t) {
  return o.filtration && (o.form == ChannelForm::released ? t >= double(o.warmup) : active(o, t));
}

// One channel's window of the last M values, [M, columns] with the channel's first entry at `first`.
template <class S>
struct Window {
  const S* first;
  std::int64_t length, stride;

  FOLDGRAD_HD double at(std::int64_t k) const { return double(first[k * stride]); }
};

struct Means {
  double arithmetic, geometric;
};
// Of the window with `value` in place of entry `slot`. The logarithm of zero is kept out by `floor`, or not by 0.
template <class S>
FOLDGRAD_HD Means means(const Window<S>& window, std::int64_t slot, double value, double floor) {
  double sum = 0, logs = 0;
  for (std::int64_t k = 0; k < window.length; ++k) {
    const double a = k == slot ? value : window.at(k);
    sum += a;
    logs += std::log(a < floor ? floor : a);
  }
  return {sum / double(window.length), std::exp(logs / double(window.length))};  // [UN-16]
}
template <class S>
FOLDGRAD_HD double mean(const Window<S>& window, std::int64_t slot, double value) {
  double sum = 0;
  for (std::int64_t k = 0; k < window.length; ++k) sum += k == slot ? value : window.at(k);
  return sum / double(window.length);
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

// What the channels of a layer contribute to its decision. NaN takes no part in a maximum.
struct LayerTotals {
  double distance = 0, threshold = 0, level = 0;  // sums of AM - GM, M V(sqrt), AM
  double largest_excess = 0, largest_distance = 0;
  double roots = 0, squares = 0;  // over all entries of all windows, for the pooled threshold

  FOLDGRAD_HD void add(const LayerTotals& b) {
    distance += b.distance;
    threshold += b.threshold;
    level += b.level;
    roots += b.roots;
    squares += b.squares;
    if (b.largest_excess > largest_excess) largest_excess = b.largest_excess;
    if (b.largest_distance > largest_distance) largest_distance = b.largest_distance;
  }
};

// Rounding alone makes AM > GM in windows of equal entries. The released code has no such tolerance.
template <class S>
FOLDGRAD_HD double tolerance(const ChannelNormOptions& o) {
  return o.form == ChannelForm::released ? 0 : sizeof(S) == 4 ? 4e-6 : 1e-9;
}

// Channel's part in the test [UN-19]: AM(window with q) - GM(same) against M V(sqrt(window before q)). By [UN-18] the
// first is never above the second where both are of one window, so a q that repeats the value it replaces never fires.
template <class S>
FOLDGRAD_HD LayerTotals propose(const ChannelNormOptions& o, const Window<S>& window, std::int64_t slot, double q) {
  LayerTotals totals;
  for (std::int64_t k = 0; k < window.length && o.granularity == Granularity::pooled; ++k) {
    totals.roots += std::sqrt(window.at(k));
    totals.squares += window.at(k);
  }
  if ((o.hold_non_finite && !finite(q)) || (!o.flag_low && !(q > window.at(slot)))) return totals;
  const double tol = tolerance<S>(o);
  const Means m = means(window, slot, q, o.form == ChannelForm::released ? 0 : 1e-38);
  totals.distance = m.arithmetic - m.geometric;
  totals.level = m.arithmetic;
  const double excess = totals.distance - tol * m.arithmetic;
  if (excess > 0) totals.largest_distance = excess;
  if (o.granularity == Granularity::pooled) return totals;
  totals.threshold = double(window.length) * variance_of_roots(window, o.ddof);
  if (excess - totals.threshold * (1 + tol) > 0) totals.largest_excess = excess - totals.threshold * (1 + tol);
  return totals;
}

// The layer's decision from the totals of all channels, or a channel's from its own.  [UN-19]
template <class S>
FOLDGRAD_HD bool outlier(const ChannelNormOptions& o, const LayerTotals& totals, double entries) {
  const double tol = tolerance<S>(o);
  if (o.granularity == Granularity::layer_sum)
    return totals.distance > totals.threshold * (1 + tol) + tol * totals.level;
  if (o.granularity != Granularity::pooled) return totals.largest_excess > 0;
  if (!(entries > o.ddof)) return false;
  const double variance = (totals.squares - totals.roots * totals.roots / entries) / (entries - o.ddof);
  const double threshold = double(o.window_forward) * (variance < 0 ? 0 : variance);  // below 0 by rounding
  return totals.largest_distance > threshold * (1 + tol);
}

// The factor r of the released forms: what the running estimate would have made of it.  [MABN-1]
FOLDGRAD_HD inline double rescale(const ChannelNormOptions& o, double t, double var_hat, double run_var) {
  const double first = double(o.warmup > 1000 ? o.warmup : 1000);
  if (o.rescale == Rescale::none || t <= first) return 1;
  const double r = std::sqrt(var_hat + o.eps) / std::sqrt(run_var + o.eps);
  return r < 0.2 ? 0.2 : r > 5 ? 5 : r;
}

}  // namespace foldgrad::channel_norm_math
