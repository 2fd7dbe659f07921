// Where a backward kernel writes the gradient of one operand, and how. Included by kernels: C++17, no libraries.
#pragma once
#include "engine/dtype.h"

namespace foldgrad {

// Backward adds, always. The first contribution to a gradient is `set`, so that no gradient needs filling with zeros.
enum class GradMode : std::uint8_t { set, add };

// A kernel calls put() exactly once for every element of an operand's gradient, or skips the operand when it is null
// (nothing upstream wants it).
template <class T>
struct GradOut {
  T* data = nullptr;
  GradMode mode = GradMode::set;

  FOLDGRAD_HD explicit operator bool() const { return data != nullptr; }
  FOLDGRAD_HD void put(std::int64_t i, compute_t<T> value) const {
    data[i] = T(mode == GradMode::set ? value : compute_t<T>(data[i]) + value);
  }
};

}  // namespace foldgrad
