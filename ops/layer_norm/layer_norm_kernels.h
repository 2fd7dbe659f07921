// Kernels that apply layer norm to each row of a matrix. engine/cpu/row_op.h describes the members of these structs.
#pragma once
#include <cmath>

#include "engine/cpu/root_of_squares.h"
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct LayerNormForward {
  static constexpr const char* kName = "layer_norm forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 2, kTerms = 1;
  struct Row {
    std::int64_t first;  // index of the row's first element
    Value mu, rstd;
  };

  T* y;                       // [rows, columns]
  Value *mu, *rstd;           // [rows]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  std::int64_t rows, columns;
  Value eps;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {r * columns, 0, 0}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(x[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const {
    row.mu = sums[0] / Value(columns);  // [LN-1]
  }
  // Computes the variance in a second step: E[x^2] - E[x]^2 would lose all digits of rows far from zero.
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    const Value deviation = Value(x[i]) - row.mu;
    sums[0] += deviation * deviation;  // [LN-1]
  }
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[1]) const {
    row.rstd = Value(1) / std::sqrt(sums[0] / Value(columns) + eps);  // [LN-2]
    if (row.rstd == 0)  // the squares overflowed; compared with them, eps is negligible
      row.rstd = Value(std::sqrt(double(columns)) / root_of_squares(columns, [&](std::int64_t c) {
                         return double(x[row.first + c]) - double(row.mu);
                       }));
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const {
    mu[r] = row.mu;
    rstd[r] = row.rstd;
  }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    const Value xhat = (Value(x[i]) - row.mu) * row.rstd;  // [LN-2]
    return Value(gamma[c]) * xhat + Value(beta[c]);        // [LN-3]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma), visit.column(beta));
};

template <class T>
struct LayerNormBackward {
  static constexpr const char* kName = "layer_norm backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 2;
  static constexpr int kSums = 2;  // dgamma and dbeta
  struct Row {
    Value mu, rstd, mean_h, mean_h_xhat;
  };

  GradOut<T> dx;                      // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  const T *dy, *x, *gamma;            // [rows, columns], [rows, columns], [columns]
  const Value *mu, *rstd;             // [rows]
  std::int64_t rows, columns;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {mu[r], rstd[r], 0, 0}; }
  FOLDGRAD_HD Value h(std::int64_t i, std::int64_t c) const { return Value(dy[i]) * Value(gamma[c]); }
  FOLDGRAD_HD Value xhat(const Row& row, std::int64_t i) const { return (Value(x[i]) - row.mu) * row.rstd; }
  FOLDGRAD_HD void reduce(Step<0>, const Row& row, std::int64_t i, std::int64_t c, Value (&sums)[2]) const {
    sums[0] += h(i, c);
    sums[1] += h(i, c) * xhat(row, i);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[2]) const {
    row.mean_h = sums[0] / Value(columns);
    row.mean_h_xhat = sums[1] / Value(columns);
  }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    return row.rstd * (h(i, c) - row.mean_h - xhat(row, i) * row.mean_h_xhat);  // [LN-4]
  }
  FOLDGRAD_HD void add(const Row& row, std::int64_t i, std::int64_t, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[i]) * xhat(row, i);  // [LN-5]
    sums[1] += Value(dy[i]);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int s) const { return s == 0 ? dgamma : dbeta; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(gamma), visit.row(mu),
                    visit.row(rstd));
};

FOLDGRAD_FASTER(row_in_registers, LayerNormForward);
FOLDGRAD_FASTER(row_with_column_sums_in_registers, LayerNormBackward);

}  // namespace foldgrad
