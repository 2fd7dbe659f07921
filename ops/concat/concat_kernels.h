#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Writes rows of `zeros_before` zeros, `columns` values of x and `zeros_after` zeros.
template <class T>
struct CopyRows {
  GradOut<T> y;
  const T* x;
  std::int64_t rows, columns;
  std::int64_t row_y, row_x;  // strides
  std::int64_t zeros_before = 0, zeros_after = 0;

  FOLDGRAD_HD std::int64_t width() const { return zeros_before + columns + zeros_after; }
};

FOLDGRAD_DECLARE(copy_rows, CopyRows);

}  // namespace foldgrad
