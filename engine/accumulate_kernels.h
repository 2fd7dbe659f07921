#pragma once
#include "engine/dtype.h"

namespace foldgrad {

template <class T>
struct Accumulate {
  T* target;
  const T* source;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    target[i] = T(compute_t<T>(target[i]) + compute_t<T>(source[i]));
  }
};

template <class T>
void accumulate_cpu(const Accumulate<T>& p);
template <class T>
void accumulate_cuda(const Accumulate<T>& p);

}  // namespace foldgrad
