#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Element-wise (engine/cpu/elementwise.h), forward and backward alike.
template <class T>
struct Flip {
  GradOut<T> y;
  const T* x;
  std::int64_t elements, n, inner;  // x: [elements / (n inner), n, inner]

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    const std::int64_t k = i / inner % n;
    y.put(i, compute_t<T>(x[i + (n - 1 - 2 * k) * inner]));  // [FLIP-1], [FLIP-2]
  }
};

FOLDGRAD_DECLARE(flip, Flip);

}  // namespace foldgrad
