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

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.update(target);
    visit.element(source);
  }
};

FOLDGRAD_DECLARE(accumulate, Accumulate);

}  // namespace foldgrad
