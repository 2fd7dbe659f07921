// The destinations of gradients in backward kernels. Kernels include this file, so it is C++17 without libraries.
#pragma once
#include "engine/dtype.h"

namespace foldgrad {

// Gradients accumulate. The first contribution is stored (`set`), so that no gradient needs to be zeroed first.
enum class GradMode : std::uint8_t { set, add };

// The destination of one operand's gradient. A kernel calls put() exactly once for every element. If the operand needs
// no gradient, `data` is null, and the kernel skips the gradient.
template <class T>
struct GradOut {
  T* data = nullptr;
  GradMode mode = GradMode::set;

  FOLDGRAD_HD explicit operator bool() const { return data != nullptr; }
  FOLDGRAD_HD void put(std::int64_t i, compute_t<T> value) const {
    data[i] = T(mode == GradMode::set ? value : compute_t<T>(data[i]) + value);
  }
};

// The destination of sums over rows, such as gradients of biases. Its elements have the type of the sums.
template <class T>
using ParameterGradOut = GradOut<compute_t<T>>;

}  // namespace foldgrad
