// The penalty is the sum over a matrix of one row (engine/cpu/row_op.h). Its gradient takes two steps: first the
// factors per channel, then the elements (engine/cpu/elementwise.h).
#pragma once
#include <cmath>

#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct RbnPenalty {
  static constexpr const char* kName = "rbn_penalty";
  using S = compute_t<T>;
  using Value = double;
  static constexpr int kSteps = 1, kTerms = 1;
  static constexpr std::int64_t rows = 1;
  struct Row {
    Value sum;
  };

  const double *mean, *variance;  // [columns], from ChannelMoments
  std::int64_t count;             // number of rows
  const S *run_mean, *run_var;    // [columns]
  double mean_weight, variance_weight;
  std::int64_t columns;
  T* y;  // scalar

  FOLDGRAD_HD double mean_distance(std::int64_t c) const { return mean[c] - double(run_mean[c]); }
  FOLDGRAD_HD double variance_distance(std::int64_t c) const { return variance[c] - double(run_var[c]); }

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t, std::int64_t c, Value (&sums)[1]) const {
    const double m = mean_distance(c), v = variance_distance(c);
    if (count > 0) sums[0] += mean_weight * m * m + variance_weight * std::fabs(v);  // [RBN-2]
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.sum = sums[0]; }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t) const { *y = T(row.sum); }
  FOLDGRAD_HD T* target() const { return nullptr; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t, std::int64_t) const { return row.sum; }
};

// Computes each channel's factors in dx = offset + x_factor * (x - mean). Without rows, the factors are not used.
template <class T>
struct RbnPenaltyFactors {
  static constexpr const char* kName = "rbn_penalty backward step";
  using S = compute_t<T>;
  std::int64_t n;  // number of channels
  RbnPenalty<T> forward;
  const T* dy;                  // scalar
  S *mean, *offset, *x_factor;  // [columns]

  FOLDGRAD_HD void operator()(std::int64_t c) const {
    const double each = 2 * double(S(*dy)) / double(forward.count), v = forward.variance_distance(c);
    const double sign = v > 0 ? 1 : v < 0 ? -1 : v;
    mean[c] = S(forward.mean[c]);
    offset[c] = S(each * forward.mean_weight * forward.mean_distance(c));
    x_factor[c] = S(each * forward.variance_weight * sign);
  }
};

template <class T>
struct RbnPenaltyGradient {
  static constexpr const char* kName = "rbn_penalty backward";
  using Value = compute_t<T>;

  GradOut<T> dx;
  const T* x;
  const Value *mean, *offset, *x_factor;  // [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    return offset[c] + x_factor[c] * (Value(x[i]) - mean[c]);  // [RBN-3]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(x), visit.column(mean), visit.column(offset),
                    visit.column(x_factor));
};

}  // namespace foldgrad
