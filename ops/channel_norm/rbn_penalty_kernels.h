#pragma once
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {

template <class T>
struct RbnPenalty {
  using S = compute_t<T>;
  const double *mean, *variance, *count;  // [columns], [columns], [], as ChannelMoments has them
  const S *run_mean, *run_var;            // [columns]
  double mean_weight, variance_weight;
  std::int64_t columns;
  T* y;  // []

  FOLDGRAD_HD double mean_distance(std::int64_t c) const { return mean[c] - double(run_mean[c]); }
  FOLDGRAD_HD double variance_distance(std::int64_t c) const { return variance[c] - double(run_var[c]); }
  FOLDGRAD_HD double term(std::int64_t c) const {
    if (*count == 0) return 0;
    const double m = mean_distance(c), v = variance_distance(c);
    return mean_weight * m * m + variance_weight * std::fabs(v);  // [RBN-2]
  }
};

// What ChannelGradient needs to write dx, per channel.
template <class T>
struct RbnPenaltyBackward {
  using S = compute_t<T>;
  RbnPenalty<T> forward;
  const T* dy;  // []
  S* mean;      // [columns]
  ChannelCoefficients<S> dx;

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const double n = *forward.count, each = n == 0 ? 0 : 2 * double(compute_t<T>(*dy)) / n;
    const double v = n == 0 ? 0 : forward.variance_distance(c), sign = v > 0 ? 1 : v < 0 ? -1 : v;
    mean[c] = S(n == 0 ? 0 : forward.mean[c]);
    dx.dy_factor[c] = 0;
    dx.offset[c] = n == 0 ? 0 : S(-each * forward.mean_weight * forward.mean_distance(c));
    dx.x_factor[c] = S(-each * forward.variance_weight * sign);  // [RBN-3]
  }
};

FOLDGRAD_DECLARE(rbn_penalty, RbnPenalty);
FOLDGRAD_DECLARE(rbn_penalty, RbnPenaltyBackward);

}  // namespace foldgrad
