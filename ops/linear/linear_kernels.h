#pragma once
#include "engine/grad_out.h"

namespace foldgrad {

// db, as sums over rows (engine/cpu/column_sums.h). Everything else is a matrix product.
template <class T>
struct LinearBiasBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> db;  // [columns]
  const T* dy;    // [rows, columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[r * columns + c]);  // [LIN-4]
  }
  FOLDGRAD_HD void put(std::int64_t c, const Value (&sums)[kSums]) const { db.put(c, sums[0]); }
};

template <class T>
void linear_bias_backward_cpu(const LinearBiasBackward<T>& p);
template <class T>
void linear_bias_backward_cuda(const LinearBiasBackward<T>& p);

}  // namespace foldgrad
