// Kernels that apply softmax to each row of a matrix. engine/cpu/row_op.h describes the members of these structs.
#pragma once
#include <cmath>

#include "engine/cpu/vector_math.h"
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct SoftmaxForward {
  static constexpr const char* kName = "softmax forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 2, kTerms = 1, kMaxStep = 0;
  struct Row {
    Value max, scale;
  };

  T* y;        // [rows, columns]
  const T* x;  // [rows, columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&max)[1]) const {
    const Value value = x[i];
    max[0] = value > max[0] ? value : max[0];
  }
  // Uses 0 as the maximum of a row that is -infinity everywhere, so that no difference is NaN. Uses HUGE_VAL because
  // device code may not call functions of numeric_limits.
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&max)[1]) const {
    row.max = max[0] == Value(-HUGE_VAL) ? Value(0) : max[0];  // [SM-1]
  }
  FOLDGRAD_HD Value exponential(const Row& row, std::int64_t i) const {
    return fast_exp_nonpositive(Value(x[i]) - row.max);
  }
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += exponential(row, i);
  }
  // A row that is -infinity everywhere has sum 0, and is scaled by 0. NaN stays NaN.
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[1]) const {
    row.scale = sums[0] == Value(0) ? Value(0) : Value(1) / sums[0];
  }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    return exponential(row, i) * row.scale;  // [SM-2]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

template <class T>
struct SoftmaxBackward {
  static constexpr const char* kName = "softmax backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    Value sum_dy_y;
  };

  GradOut<T> dx;    // [rows, columns]
  const T *dy, *y;  // [rows, columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(dy[i]) * Value(y[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.sum_dy_y = sums[0]; }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    return Value(y[i]) * (Value(dy[i]) - row.sum_dy_y);  // [SM-3]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(y));
};

FOLDGRAD_FASTER(row_in_registers, SoftmaxForward);
FOLDGRAD_FASTER(row_in_registers, SoftmaxBackward);

}  // namespace foldgrad
