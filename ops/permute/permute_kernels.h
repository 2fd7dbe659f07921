#pragma once
#include "engine/kernels.h"

namespace foldgrad {

constexpr int kPermuteOuterAxes = 4;

// y [outer axes, rows, columns] from x: two axes are moved as matrices, the others walked over. Either the columns of a
// matrix are neighbours in x (column_x is 1), and rows are copied, or its rows are (row_x is 1), and it is transposed.
// Without outer axes there is one matrix.
template <class T>
struct Permute {
  GradOut<T> y;
  const T* x;
  int outer_axes = 0;
  std::int64_t outer_size[kPermuteOuterAxes] = {}, outer_x[kPermuteOuterAxes] = {},
               outer_y[kPermuteOuterAxes] = {};  // and strides
  std::int64_t matrices = 1, rows, columns;
  std::int64_t row_x, row_y, column_x;  // strides; column_y is 1

  // Finds where matrix m starts in x and in y. The kernel counts in 32 bits, which are quicker to divide.
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
