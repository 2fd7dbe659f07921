#pragma once
#include "engine/kernels.h"

namespace foldgrad {

constexpr int kPermuteOuterAxes = 4;

// Computes y [outer axes, rows, columns] from x. A kernel handles two axes as a matrix and loops over the outer axes,
// if any. If columns are adjacent in x (column_x = 1), it copies rows; if rows are adjacent (row_x = 1), it transposes.
template <class T>
struct Permute {
  GradOut<T> y;
  const T* x;
  int outer_axes = 0;
  std::int64_t outer_size[kPermuteOuterAxes] = {}, outer_x[kPermuteOuterAxes] = {},
               outer_y[kPermuteOuterAxes] = {};  // the sizes of the outer axes, and their strides in x and y
  std::int64_t matrices = 1, rows, columns;
  std::int64_t row_x, row_y, column_x;  // strides in elements; column_y is 1

  // Finds the offsets of matrix m in x and in y. Kernels pass a 32-bit m, since 32-bit divisions are faster.
  template <class Index>
  FOLDGRAD_HD void start(Index m, std::int64_t& in_x, std::int64_t& in_y) const {
    in_x = in_y = 0;
    for (int a = outer_axes - 1; a >= 0; --a) {
      const Index index = m % Index(outer_size[a]);
      m /= Index(outer_size[a]);
      in_x += index * outer_x[a];
      in_y += index * outer_y[a];
    }
  }
};

FOLDGRAD_DECLARE(permute, Permute);

}  // namespace foldgrad
