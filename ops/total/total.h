// Sums in a fixed order, for two kinds of gradients: the gradient of a scalar, from one term per row or column, and the
// gradient of a vector that was added to every row of a matrix.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// The sum of a matrix that has one row (engine/cpu/row_op.h).
template <class T>
struct Total {
  static constexpr const char* kName = "total";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    Value sum;
  };

  ParameterGradOut<T> out;  // [1]; not null
  const Value* values;      // [columns]
  std::int64_t columns;
  static constexpr std::int64_t rows = 1;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += values[i];
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.sum = sums[0]; }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t) const { out.put(0, row.sum); }
  FOLDGRAD_HD T* target() const { return nullptr; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t, std::int64_t) const { return row.sum; }
};

// Sums over the rows of a matrix (engine/cpu/column_sums.h).
template <class T>
struct ColumnTotals {
  static constexpr const char* kName = "totals of columns";
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  ParameterGradOut<T> out;  // [columns]; not null
  const T* values;          // [rows, columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += Value(values[r * columns + c]);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return out; }
  FOLDGRAD_OPERANDS(visit.element(values));
};

}  // namespace foldgrad
