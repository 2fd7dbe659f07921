#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// The forward pass of weighted_pool and mean_pool. Without w, all weights are 1. The sum is multiplied by `factor`,
// which is 1 if there are weights.
template <class T>
struct WeightedPoolForward {
  using Value = compute_t<T>;

  T* y;            // [batch, columns]
  const T *x, *w;  // [batch, steps, columns], [batch, steps] or null
  Value factor;
  std::int64_t batch, steps, columns;

  FOLDGRAD_HD Value weight(std::int64_t row) const { return w ? Value(w[row]) : Value(1); }
};

template <class T>
struct WeightedPoolBackward {
  using Value = compute_t<T>;

  GradOut<T> dx, dw;    // [batch, steps, columns], [batch, steps]
  const T *dy, *x, *w;  // [batch, columns], [batch, steps, columns], [batch, steps]; x and w are null for a mean
  Value factor;
  std::int64_t batch, steps, columns;

  // These return one element of dx, and the contribution of one channel to dw; `row` is an index into [batch * steps].
  FOLDGRAD_HD Value dx_of(std::int64_t row, T dy_bc) const {
    return (w ? Value(w[row]) : factor) * Value(dy_bc);  // [WP-2] [RED-4]
  }
  FOLDGRAD_HD Value share_of_dw(T dy_bc, T x_row_c) const { return Value(dy_bc) * Value(x_row_c); }  // [WP-3]
};

FOLDGRAD_DECLARE(weighted_pool, WeightedPoolForward);
FOLDGRAD_DECLARE(weighted_pool, WeightedPoolBackward);

}  // namespace foldgrad
