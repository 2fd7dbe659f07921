#pragma once
#include "engine/kernels.h"
#include "ops/softmax/softmax_math.h"

namespace foldgrad {

template <class T>
struct SoftmaxForward {
  T* y;                      // [rows, columns]
  const T* x;                // [rows, columns]
  const std::uint8_t* mask;  // [rows / rows_per_mask, columns]; null: everything is attended
  std::int64_t rows, columns;
  std::int64_t rows_per_mask;
};

template <class T>
struct SoftmaxBackward {
  GradOut<T> dx;    // [rows, columns]
  const T *dy, *y;  // [rows, columns]
  std::int64_t rows, columns;
};

FOLDGRAD_DECLARE(softmax, SoftmaxForward);
FOLDGRAD_DECLARE(softmax, SoftmaxBackward);

}  // namespace foldgrad
