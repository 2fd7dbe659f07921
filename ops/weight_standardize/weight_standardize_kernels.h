// Kernels that standardize each row of a weight matrix (engine/cpu/row_op.h). Row o holds the weights of unit o.
#pragma once
#include <cmath>

#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct WeightStandardizeForward {
  static constexpr const char* kName = "weight_standardize forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 2, kTerms = 1;
  struct Row {
    Value mu, g, rs, c;  // rs = 1 / s_o; c = c_o
  };

  T* what;                     // [rows, columns]
  Value *mu, *rs, *cs;         // [rows]
  const T *W, *g;              // [rows, columns], [rows]
  std::int64_t rows, columns;  // number of units, and fan-in
  Value c, minimum;

  FOLDGRAD_HD Row row(std::int64_t o) const { return {0, Value(g[o]), 0, 0}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(W[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const {
    row.mu = sums[0] / Value(columns);  // [WS-1]
  }
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    const Value deviation = Value(W[i]) - row.mu;
    sums[0] += deviation * deviation;  // [WS-1]
  }
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[1]) const {
    const bool clamped = c * sums[0] <= minimum;
    row.rs = Value(1) / std::sqrt(clamped ? minimum : c * sums[0]);  // [WS-2]
    row.c = clamped ? Value(0) : c;
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t o) const {
    mu[o] = row.mu;
    rs[o] = row.rs;
    cs[o] = row.c;
  }
  FOLDGRAD_HD T* target() const { return what; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    const Value w = (Value(W[i]) - row.mu) * row.rs;  // [WS-2]
    return row.g * w;                                 // [WS-3]
  }
};

template <class T>
struct WeightStandardizeBackward {
  static constexpr const char* kName = "weight_standardize backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 2;
  struct Row {
    Value mu, g, rs, c, dg, mean_k, sum_k_w;
  };

  GradOut<T> dW, dg;           // [rows, columns], [rows]
  const T *dwhat, *W, *g;      // [rows, columns], [rows, columns], [rows]
  const Value *mu, *rs, *cs;   // [rows]
  std::int64_t rows, columns;  // number of units, and fan-in

  FOLDGRAD_HD Row row(std::int64_t o) const { return {mu[o], Value(g[o]), rs[o], cs[o], 0, 0, 0}; }
  FOLDGRAD_HD Value w(const Row& row, std::int64_t i) const { return (Value(W[i]) - row.mu) * row.rs; }
  FOLDGRAD_HD void reduce(Step<0>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[2]) const {
    sums[0] += Value(dwhat[i]);
    sums[1] += Value(dwhat[i]) * w(row, i);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[2]) const {
    row.dg = sums[1];  // [WS-5]
    row.mean_k = row.g * sums[0] / Value(columns);
    row.sum_k_w = row.g * sums[1];
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t o) const {
    if (dg) dg.put(o, row.dg);
  }
  FOLDGRAD_HD const GradOut<T>& target() const { return dW; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    const Value k = row.g * Value(dwhat[i]);
    return row.rs * (k - row.mean_k - row.c * w(row, i) * row.sum_k_w);  // [WS-4]
  }
};

}  // namespace foldgrad
