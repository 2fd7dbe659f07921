// Kernels that divide each row of a matrix by its length. engine/cpu/row_op.h describes the members of these structs.
#pragma once
#include <cmath>

#include "engine/cpu/root_of_squares.h"
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct ScaleNormForward {
  static constexpr const char* kName = "scale_norm forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    std::int64_t first;  // index of the row's first element
    Value rnorm, g_rnorm;
  };

  T* y;            // [rows, columns]
  Value* rnorm;    // [rows]
  const T *x, *g;  // [rows, columns], [1]; a null g counts as 1
  std::int64_t rows, columns;
  Value eps;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {r * columns, 0, 0}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(x[i]) * Value(x[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const {
    const Value norm = std::sqrt(sums[0]);
    row.rnorm = Value(1) / (norm < eps ? eps : norm);  // [SN-1]; NaN stays NaN
    if (row.rnorm == 0)                                // the squares overflowed
      row.rnorm = Value(1 / root_of_squares(columns, [&](std::int64_t c) { return x[row.first + c]; }));
    row.g_rnorm = (g ? Value(g[0]) : Value(1)) * row.rnorm;
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const { rnorm[r] = row.rnorm; }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    return row.g_rnorm * Value(x[i]);  // [SN-1] [FN-1]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

template <class T>
struct ScaleNormBackward {
  static constexpr const char* kName = "scale_norm backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    Value rnorm, dy_u;
  };

  GradOut<T> dx;        // [rows, columns]
  Value* dy_u;          // [rows]: dy . u; the sum over the rows is dg (ops/total/total.h)
  const T *dy, *x, *g;  // [rows, columns], [rows, columns], [1]; a null g counts as 1
  const Value* rnorm;   // [rows]
  std::int64_t rows, columns;
  Value eps;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {rnorm[r], 0}; }
  FOLDGRAD_HD Value u(const Row& row, std::int64_t i) const { return Value(x[i]) * row.rnorm; }
  FOLDGRAD_HD void reduce(Step<0>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(dy[i]) * u(row, i);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.dy_u = sums[0]; }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const { dy_u[r] = row.dy_u; }  // [SN-3]
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    const Value g_rnorm = (g ? Value(g[0]) : Value(1)) * row.rnorm;
    const Value along = row.rnorm < Value(1) / eps ? row.dy_u : Value(0);  // 0 if eps limits the norm
    return g_rnorm * (Value(dy[i]) - u(row, i) * along);                   // [SN-2]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x));
};

FOLDGRAD_FASTER(row_in_registers, ScaleNormForward);
FOLDGRAD_FASTER(row_in_registers, ScaleNormBackward);

}  // namespace foldgrad
