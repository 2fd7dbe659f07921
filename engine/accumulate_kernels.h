#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T, class Source = T>
struct Accumulate {
  static constexpr const char* kName = "accumulate";
  GradOut<T> target;
  const Source* source;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { target.put(i, compute_t<T>(source[i])); }
  FOLDGRAD_OPERANDS(visit.result(target), visit.element(source));
};
using AccumulateBf16 = Accumulate<float, bf16>;

}  // namespace foldgrad
