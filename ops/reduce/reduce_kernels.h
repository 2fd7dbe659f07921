#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct SumBackward {
  static constexpr const char* kName = "sum backward";

  GradOut<T> dx;           // [n]
  const compute_t<T>* dy;  // scalar
  std::int64_t n;
  compute_t<T> scale;

  FOLDGRAD_HD void operator()(std::int64_t i) const { dx.put(i, *dy * scale); }  // [RED-1, RED-2]
  FOLDGRAD_OPERANDS(visit.result(dx));
};

}  // namespace foldgrad
