// Weight standardization along the rows of a matrix (engine/cpu/row_op.h): a row is a unit o, its columns the fan-in.
#pragma once
#include "engine/kernels.h"
#include "ops/weight_standardize/weight_standardize_math.h"

namespace foldgrad {

template <class T>
struct WeightStandardizeForward {
  static constexpr const char* kName = "weight_standardize forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 2, kTerms = 1;
  struct Row {
    Value mu, g;
    weight_standardize_math::Scale<Value> s;
  };

  T* what;                     // [rows, columns]
  Value *mu, *rs, *cs;         // [rows]
  const T *W, *g;              // [rows, columns], [rows]
  std::int64_t rows, columns;  // units, fan-in
  Value c, minimum;

  FOLDGRAD_HD Row row(std::int64_t o) const { return {0, Value(g[o]), {0, 0}}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += Value(W[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const {
    row.mu = sums[0] / Value(columns);  // [WS-1]
  }
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t, Value (&sums)[1]) const {
    sums[0] += weight_standardize_math::squared_deviation(Value(W[i]), row.mu);
  }
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[1]) const {
    row.s = weight_standardize_math::scale(sums[0], c, minimum);
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t o) const {
    mu[o] = row.mu;
    rs[o] = row.s.rs;
    cs[o] = row.s.c;
  }
  FOLDGRAD_HD T* target() const { return what; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t) const {
    return weight_standardize_math::what(weight_standardize_math::w(Value(W[i]), row.mu, row.s.rs), row.g);
  }
};

template <class T>
struct WeightStandardizeBackward {
  static constexpr const char* kName = "weight_standardize backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 2;
  struct Row {
    Value mu, g, dg, mean_k, sum_k_w;
    weight_standardize_math::Scale<Value> s;
  };

  GradOut<T> dW, dg;           // [rows, columns], [rows]
  const T *dwhat, *W, *g;      // [rows, columns], [rows, columns], [rows]
  const Value *mu, *rs, *cs;   // [rows]
  std::int64_t rows, columns;  // units, fan-in

  FOLDGRAD_HD Row row(std::int64_t o) const { return {mu[o], Value(g[o]), 0, 0, 0, {rs[o], cs[o]}}; }
  FOLDGRAD_HD Value w(const Row& row, std::int64_t i) const {
    return weight_standardize_math::w(Value(W[i]), row.mu, row.s.rs);
  }
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
    return weight_standardize_math::dW(row.g * Value(dwhat[i]), w(row, i), row.mean_k, row.sum_k_w, row.s);
  }
};

}  // namespace foldgrad
