// RMS norm along the rows of a matrix (engine/cpu/row_op.h).
#pragma once
#include "engine/kernels.h"
#include "ops/rms_norm/rms_norm_math.h"

namespace foldgrad {

// kPartial: the mean is over the first k channels, otherwise over all.
template <class T, bool kPartial>
struct RmsNormForward {
  static constexpr const char* kName = "rms_norm forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    Value rrms, weight;
  };

  T* y;                  // [rows, columns]
  Value *rrms, *weight;  // [rows]
  const T *x, *gamma;    // [rows, columns], [columns]
  std::int64_t rows, columns, k;
  Value eps;
  bool eps_outside;

  FOLDGRAD_HD Row row(std::int64_t) const { return {}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t c, Value (&sums)[1]) const {
    sums[0] += kPartial && c >= k ? Value(0) : Value(x[i]) * Value(x[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const {
    const Value mean = sums[0] / Value(k);
    row.rrms = rms_norm_math::rrms(mean, eps, eps_outside);
    row.weight = rms_norm_math::weight(mean, Value(k), eps, eps_outside);
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const {
    rrms[r] = row.rrms;
    weight[r] = row.weight;
  }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    return rms_norm_math::y(rms_norm_math::xhat(Value(x[i]), row.rrms), Value(gamma[c]));
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma));
};

template <class T, bool kPartial>
struct RmsNormBackward {
  static constexpr const char* kName = "rms_norm backward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  static constexpr int kSums = 1;  // dgamma
  struct Row {
    Value rrms, along;
  };

  GradOut<T> dx;               // [rows, columns]
  ParameterGradOut<T> dgamma;  // [columns]
  const T *dy, *x, *gamma;     // [rows, columns], [rows, columns], [columns]
  const Value *rrms, *weight;  // [rows]
  std::int64_t rows, columns, k;

  // weight, until it is multiplied by the sum
  FOLDGRAD_HD Row row(std::int64_t r) const { return {rrms[r], weight[r]}; }
  FOLDGRAD_HD Value xhat(const Row& row, std::int64_t i) const { return rms_norm_math::xhat(Value(x[i]), row.rrms); }
  FOLDGRAD_HD void reduce(Step<0>, const Row& row, std::int64_t i, std::int64_t c, Value (&sums)[1]) const {
    sums[0] += rms_norm_math::dgamma(Value(dy[i]), xhat(row, i)) * Value(gamma[c]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.along *= sums[0]; }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    return rms_norm_math::dx(Value(dy[i]) * Value(gamma[c]), xhat(row, i), row.rrms,
                             kPartial && c >= k ? Value(0) : row.along);
  }
  FOLDGRAD_HD void add(const Row& row, std::int64_t i, std::int64_t, Value (&sums)[kSums]) const {
    sums[0] += rms_norm_math::dgamma(Value(dy[i]), xhat(row, i));
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return dgamma; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(gamma), visit.row(rrms),
                    visit.row(weight));
};

template <class T>
using RmsNormOfAll = RmsNormForward<T, false>;
template <class T>
using RmsNormOfSome = RmsNormForward<T, true>;
template <class T>
using RmsNormOfAllBackward = RmsNormBackward<T, false>;
template <class T>
using RmsNormOfSomeBackward = RmsNormBackward<T, true>;

FOLDGRAD_FASTER(cuda, row_in_registers, RmsNormOfAll);
FOLDGRAD_FASTER(cuda, row_with_column_sums_in_registers, RmsNormOfAllBackward);

}  // namespace foldgrad
