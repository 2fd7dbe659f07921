#pragma once
#include "engine/grad_out.h"
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

template <class T>
void softmax_cpu(const SoftmaxForward<T>& p);
template <class T>
void softmax_cpu(const SoftmaxBackward<T>& p);
template <class T>
void softmax_cuda(const SoftmaxForward<T>& p);
template <class T>
void softmax_cuda(const SoftmaxBackward<T>& p);

}  // namespace foldgrad
