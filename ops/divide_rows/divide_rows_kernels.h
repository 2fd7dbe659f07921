// Kernels that divide row r of a matrix by d_r + eps. engine/cpu/row_op.h describes the members of these structs.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct DivideRowsForward {
  static constexpr const char* kName = "divide_rows forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 0, kTerms = 1;
  struct Row {
    Value divisor;
  };

  T* y;            // [rows, columns]
  const T *n, *d;  // [rows, columns], [rows]
  std::int64_t rows, columns;
  Value eps;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {Value(d[r]) + eps}; }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    return Value(n[i]) / row.divisor;  // [DIV-1]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(n));
};

template <class T>
struct DivideRowsBackward {
  static constexpr const char* kName = "divide_rows backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    Value divisor, dy_y;
  };

  GradOut<T> dn, dd;    // [rows, columns], [rows]
  const T *dy, *y, *d;  // [rows, columns], [rows, columns], [rows]
  std::int64_t rows, columns;
  Value eps;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {Value(d[r]) + eps, 0}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(dy[i]) * Value(y[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.dy_y = sums[0]; }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const {
    if (dd) dd.put(r, -row.dy_y / row.divisor);  // [DIV-3]
  }
  FOLDGRAD_HD const GradOut<T>& target() const { return dn; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    return Value(dy[i]) / row.divisor;  // [DIV-2]
  }
  FOLDGRAD_OPERANDS(visit.result(dn), visit.element(dy), visit.element(y));
};

}  // namespace foldgrad
