// UN's outlier test. Each channel keeps its last M mean squares. When a new mean square q arrives, we put it into a
// copy of the window and compare the arithmetic and geometric means of the copy: they agree when all entries are equal
// and drift apart when one stands out. If the gap exceeds M times the variance of the old window's roots [UN-19] (with
// `pooled`, the default, of the roots in all channels' windows), we skip the iteration: it is normalized with its own
// statistics, and the windows do not record them. Example: M = 4, old window {1, 1, 1, 1}, q = 16: AM 4.75, GM 2, gap
// 2.75; the threshold is 0, so q is an outlier. A layer decides for all of its channels, or each channel for itself;
// see Granularity.
#pragma once
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad::channel_norm_math {

// Returns the tolerance of the test: rounding makes AM > GM even for equal entries. The released code has no tolerance.
template <class S>
FOLDGRAD_HD double tolerance(const ChannelNormOptions& o) {
  return o.form == ChannelForm::released ? 0 : sizeof(S) == 4 ? 4e-6 : 1e-9;
}

// The contribution of one or several channels to the decision. The maxima ignore NaN.
struct SkipTerms {
  double distance = 0, threshold = 0, level = 0;  // sums of AM - GM, of M times the variance of roots, and of AM
  double largest_excess = 0, largest_distance = 0;
  double roots = 0, squares = 0;  // sums over the entries of all windows, for the pooled threshold

  FOLDGRAD_HD void add(const SkipTerms& b) {
    distance += b.distance;
    threshold += b.threshold;
    level += b.level;
    roots += b.roots;
    squares += b.squares;
    if (b.largest_excess > largest_excess) largest_excess = b.largest_excess;
    if (b.largest_distance > largest_distance) largest_distance = b.largest_distance;
  }
};

// Returns true if a channel does not vote: if q is not finite, with hold_non_finite, or if q is not larger than the
// entry that it replaces, without flag_low.
template <class S>
FOLDGRAD_HD bool abstains(const ChannelNormOptions& o, const Window<S>& before, std::int64_t slot, double q) {
  return (o.hold_non_finite && !finite(q)) || (!o.flag_low && !(q > before.at(slot)));
}

// Returns the terms of one channel. `before` is the old window; q replaces its entry `slot`. By [UN-18], the gap of a
// window never exceeds its own threshold, so a q that equals the entry that it replaces has no excess. It can
// still exceed the threshold of `pooled`, which is computed from all windows.
template <class S>
FOLDGRAD_HD SkipTerms skip_terms(const ChannelNormOptions& o, const Window<S>& before, std::int64_t slot, double q) {
  SkipTerms terms;
  const bool pooled = o.granularity == Granularity::pooled;
  for (std::int64_t k = 0; k < before.length && pooled; ++k) {
    terms.roots += std::sqrt(before.at(k));
    terms.squares += before.at(k);
  }
  if (abstains(o, before, slot, q)) return terms;
  const double tol = tolerance<S>(o);
  const Window<S> after = before.with(slot, q);
  terms.level = arithmetic_mean(after);
  terms.distance = terms.level - geometric_mean(after, least_entry(o));
  const double distance = terms.distance - tol * terms.level;
  if (distance > 0) terms.largest_distance = distance;
  if (pooled) return terms;
  terms.threshold = double(before.length) * variance_of_roots(before, o.ddof);
  const double excess = distance - terms.threshold * (1 + tol);
  if (excess > 0) terms.largest_excess = excess;
  return terms;
}

// Returns M times the variance of the roots of all `entries` entries of a layer's windows.
FOLDGRAD_HD inline double pooled_threshold(const ChannelNormOptions& o, const SkipTerms& terms, double entries) {
  const double variance = (terms.squares - terms.roots * terms.roots / entries) / (entries - o.ddof);
  return double(o.window_forward) * (variance < 0 ? 0 : variance);  // rounding can make the variance negative
}

// Returns true for an outlier. `terms` covers one channel or all channels; all windows together have `entries` entries.
template <class S>
FOLDGRAD_HD bool fires(const ChannelNormOptions& o, const SkipTerms& terms, double entries) {
  const double tol = tolerance<S>(o);
  switch (o.granularity) {
    case Granularity::layer_sum:
      return terms.distance > terms.threshold * (1 + tol) + tol * terms.level;  // [UN-19]
    case Granularity::pooled:
      return entries > o.ddof && terms.largest_distance > pooled_threshold(o, terms, entries) * (1 + tol);  // [UN-19]
    case Granularity::channel:
    case Granularity::layer_any:
      break;
  }
  return terms.largest_excess > 0;  // [UN-19]
}

}  // namespace foldgrad::channel_norm_math
