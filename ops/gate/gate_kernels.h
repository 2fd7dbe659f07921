#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct GateForward {
  T* y;                                // [batch, steps, columns]
  const T *x, *w;                      // [batch, steps, columns], [batch, columns]
  std::int64_t batch, steps, columns;  // numbers of samples, positions and channels
};

template <class T>
struct GateBackward {
  GradOut<T> dx, dw;    // [batch, steps, columns], [batch, columns]
  const T *dy, *x, *w;  // [batch, steps, columns], [batch, steps, columns], [batch, columns]
  std::int64_t batch, steps, columns;
};

FOLDGRAD_DECLARE(gate, GateForward);
FOLDGRAD_DECLARE(gate, GateBackward);

}  // namespace foldgrad
