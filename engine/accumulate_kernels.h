#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct Accumulate {
  T* target;
  const T* source;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    target[i] = T(compute_t<T>(target[i]) + compute_t<T>(source[i]));
  }
  FOLDGRAD_OPERANDS(visit.update(target), visit.element(source));
};

struct AccumulateBf16 {
  GradOut<float> target;
  const bf16* source;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const { target.put(i, float(source[i])); }
  FOLDGRAD_OPERANDS(visit.result(target), visit.element(source));
};

FOLDGRAD_DECLARE(accumulate, Accumulate);
void accumulate_bf16_cpu(const AccumulateBf16& p);
void accumulate_bf16_cuda(const AccumulateBf16& p);

}  // namespace foldgrad
