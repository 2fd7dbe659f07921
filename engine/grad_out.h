// The places where backward kernels write gradients. Included by kernels: C++17, no libraries.
#pragma once
#include "engine/dtype.h"

namespace foldgrad {

// Backward always adds. The first contribution to a gradient is `set`, so that no gradient must be filled with zeros.
enum class GradMode : std::uint8_t { set, add };

// The place of one operand's gradient. A kernel calls put() exactly once for every element, or skips the operand when
// the place is null, since nothing upstream wants the gradient.
template <class T>
struct GradOut {
  T* data = nullptr;
  GradMode mode = GradMode::set;

  FOLDGRAD_HD explicit operator bool() const { return data != nullptr; }
  FOLDGRAD_HD void put(std::int64_t i, compute_t<T> value) const {
    data[i] = T(mode == GradMode::set ? value : compute_t<T>(data[i]) + value);
  }
};

// The place of sums over rows, such as the gradients of biases and gains: of the type in which they are summed.
template <class T>
using ParameterGradOut = GradOut<compute_t<T>>;

}  // namespace foldgrad
