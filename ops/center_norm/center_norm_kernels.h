// Kernels that apply CenterNorm to each row of a matrix. engine/cpu/row_op.h describes the members of these structs.
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct CenterNormForward {
  static constexpr const char* kName = "center_norm forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    Value mu;
  };

  T* y;                       // [rows, columns]
  Value* mu;                  // [rows]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  std::int64_t rows, columns;
  Value k;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(x[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.mu = sums[0] / Value(columns); }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const { mu[r] = row.mu; }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    const Value z = k * (Value(x[i]) - row.mu);   // [CEN-1]
    return Value(gamma[c]) * z + Value(beta[c]);  // [CEN-2]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma), visit.column(beta));
};

template <class T>
struct CenterNormBackward {
  static constexpr const char* kName = "center_norm backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  static constexpr int kSums = 2;  // dgamma and dbeta
  struct Row {
    Value mu, mean_h;
  };

  GradOut<T> dx;                      // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  const T *dy, *x, *gamma;            // [rows, columns], [rows, columns], [columns]
  const Value* mu;                    // [rows]
  std::int64_t rows, columns;
  Value k;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {mu[r], 0}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t c, Value (&sums)[1]) const {
    sums[0] += Value(dy[i]) * Value(gamma[c]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.mean_h = sums[0] / Value(columns); }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    return k * (Value(dy[i]) * Value(gamma[c]) - row.mean_h);  // [CEN-3]
  }
  FOLDGRAD_HD void add(const Row& row, std::int64_t i, std::int64_t, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[i]) * (k * (Value(x[i]) - row.mu));  // [CEN-4]
    sums[1] += Value(dy[i]);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int s) const { return s == 0 ? dgamma : dbeta; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(gamma), visit.row(mu));
};

FOLDGRAD_FASTER(row_in_registers, CenterNormForward);
FOLDGRAD_FASTER(row_with_column_sums_in_registers, CenterNormBackward);

}  // namespace foldgrad
