// Sums in a fixed order that are gradients: of a scalar, whose terms are summed per row or per column before, and of a
// vector that was added to every row of a matrix.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct Total {
  ParameterGradOut<T> out;     // [1]; not null
  const compute_t<T>* values;  // [n]
  std::int64_t n;
};

template <class T>
struct ColumnTotals {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;  // (engine/cpu/column_sums.h)

  ParameterGradOut<T> out;  // [columns]; not null
  const T* values;          // [rows, columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += Value(values[r * columns + c]);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return out; }
  FOLDGRAD_OPERANDS(visit.element(values));
};

FOLDGRAD_DECLARE(total, Total);
FOLDGRAD_DECLARE(total, ColumnTotals);

}  // namespace foldgrad
