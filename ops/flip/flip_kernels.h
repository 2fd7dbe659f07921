#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// An element-wise kernel (engine/cpu/elementwise.h). The forward and the backward pass both use it.
template <class T>
struct Flip {
  static constexpr const char* kName = "flip";
  GradOut<T> y;
  const T* x;
  std::int64_t n, length, inner;  // x: [n / (length * inner), length, inner]

  FOLDGRAD_HD const GradOut<T>& target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const {
    const std::int64_t k = i / inner % length;
    return compute_t<T>(x[i + (length - 1 - 2 * k) * inner]);  // [FLIP-1], [FLIP-2]
  }
};

}  // namespace foldgrad
