// The outlier test of UN. A step that it finds is skipped: normalized with its own statistics and kept out of the
// windows. A layer decides for all of its channels, or each channel for itself.
#pragma once
#include "ops/channel_norm/channel_norm_math.h"

namespace foldgrad::channel_norm_math {

// Returns a tolerance for rounding, which alone makes AM > GM in windows of equal entries. The released code has none.
template <class S>
FOLDGRAD_HD double tolerance(const ChannelNormOptions& o) {
  return o.form == ChannelForm::released ? 0 : sizeof(S) == 4 ? 4e-6 : 1e-9;
}

// The part of one channel in the decision, or of several channels together. NaN takes no part in a maximum.
struct SkipTerms {
  double distance = 0, threshold = 0, level = 0;  // sums of AM - GM, M V(sqrt), AM
  double largest_excess = 0, largest_distance = 0;
  double roots = 0, squares = 0;  // over all entries of all windows, for the pooled threshold

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

// Returns true for a channel that has no say: its statistic is not finite, or falls where only rises are looked for.
template <class S>
FOLDGRAD_HD bool abstains(const ChannelNormOptions& o, const Window<S>& before, std::int64_t slot, double q) {
  return (o.hold_non_finite && !finite(q)) || (!o.flag_low && !(q > before.at(slot)));
}

// Returns the terms of one channel. `before` is the window before q, which replaces its entry `slot`. By [UN-18] the
// distance of a window is never above its own threshold, so a q that repeats the value it replaces never fires.
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

// Returns M V(sqrt) over all `entries` entries of a layer's windows.
FOLDGRAD_HD inline double pooled_threshold(const ChannelNormOptions& o, const SkipTerms& terms, double entries) {
  const double variance = (terms.squares - terms.roots * terms.roots / entries) / (entries - o.ddof);
  return double(o.window_forward) * (variance < 0 ? 0 : variance);  // below 0 by rounding
}

// Returns true for an outlier. `terms`: those of one channel, or of all channels, whose windows have `entries` entries.
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
