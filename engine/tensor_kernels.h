// Kernels of tensors and gradients themselves. Included by kernels: C++17, no libraries.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// One value everywhere. On the device it is a kernel: values filled on the host would have to be copied there.
template <class T>
struct Fill {
  static constexpr const char* kName = "fill";
  T* out;
  T value;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { out[i] = value; }
};

// The first type is the widest, by which packs are sized.
template <class T, class Target = T, class Source = T>
struct Accumulate {
  static constexpr const char* kName = "accumulate";
  GradOut<Target> target;
  const Source* source;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { target.put(i, compute_t<T>(source[i])); }
  FOLDGRAD_OPERANDS(visit.result(target), visit.element(source));
};
using AccumulateBf16 = Accumulate<float, float, bf16>;
using AccumulateInBf16 = Accumulate<float, bf16, float>;

}  // namespace foldgrad
