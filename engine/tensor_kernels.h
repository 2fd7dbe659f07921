// The engine's own kernels for tensors and gradients. Kernels include this file, so it is C++17 without libraries.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Sets every element to one value. On a GPU, this avoids a copy from the host.
template <class T>
struct Fill {
  static constexpr const char* kName = "fill";
  T* out;
  T value;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { out[i] = value; }
};

// The kernel of accumulate() (tape.h) and of the operation `cast`.
template <class From, class To>
struct Accumulate {
  static constexpr const char* kName = "accumulate";
  GradOut<To> target;
  const From* source;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    const compute_t<From> value = compute_t<From>(source[i]);
    if (target.mode == GradMode::set)
      target.data[i] = To(value);  // [CAST-1]
    else
      target.put(i, compute_t<To>(value));  // [CAST-2]
  }
  FOLDGRAD_OPERANDS(visit.result(target), visit.element(source));
};

}  // namespace foldgrad
