#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// The forward and the backward pass both use this kernel, with orders that are inverse to each other.
template <class T>
struct Reindex {
  GradOut<T> y;  // [blocks, rows, columns], like x
  const T* x;
  const std::int64_t* order;  // [rows]
  std::int64_t blocks, rows, columns;

  // Returns the row of x that becomes row r in block b of y.
  FOLDGRAD_HD const T* from(std::int64_t b, std::int64_t r) const { return x + (b * rows + order[r]) * columns; }
};

FOLDGRAD_DECLARE(reindex, Reindex);

}  // namespace foldgrad
