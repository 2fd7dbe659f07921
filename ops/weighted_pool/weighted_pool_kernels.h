#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct WeightedPoolForward {
  T* y;            // [batch, columns]
  const T *x, *w;  // [batch, steps, columns], [batch, steps]
  std::int64_t batch, steps, columns;
};

template <class T>
struct WeightedPoolBackward {
  using Value = compute_t<T>;

  GradOut<T> dx, dw;    // [batch, steps, columns], [batch, steps]
  const T *dy, *x, *w;  // [batch, columns], [batch, steps, columns], [batch, steps]
  std::int64_t batch, steps, columns;

  // Gradients of one element; row counts through [batch * steps].
  FOLDGRAD_HD Value dx_of(std::int64_t row, T dy_bc) const { return Value(w[row]) * Value(dy_bc); }  // [WP-2]
  FOLDGRAD_HD Value share_of_dw(T dy_bc, T x_row_c) const { return Value(dy_bc) * Value(x_row_c); }  // [WP-3]
};

FOLDGRAD_DECLARE(weighted_pool, WeightedPoolForward);
FOLDGRAD_DECLARE(weighted_pool, WeightedPoolBackward);

}  // namespace foldgrad
