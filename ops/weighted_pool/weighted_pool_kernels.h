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

  // Of row `row` of [batch * steps], which is one of b's.
  FOLDGRAD_HD Value dx_of(std::int64_t b, std::int64_t row, std::int64_t c) const {
    return Value(w[row]) * Value(dy[b * columns + c]);  // [WP-2]
  }
  FOLDGRAD_HD Value share_of_dw(std::int64_t b, std::int64_t row, std::int64_t c) const {
    return Value(dy[b * columns + c]) * Value(x[row * columns + c]);  // [WP-3]
  }
};

FOLDGRAD_DECLARE(weighted_pool, WeightedPoolForward);
FOLDGRAD_DECLARE(weighted_pool, WeightedPoolBackward);

}  // namespace foldgrad
