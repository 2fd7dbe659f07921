// Kernels that apply RMS norm to each row of a matrix. engine/cpu/row_op.h describes the members of these structs.
#pragma once
#include <cmath>

#include "engine/cpu/root_of_squares.h"
#include "engine/kernels.h"

namespace foldgrad {

// With kPartial, the mean is over the first k channels; otherwise it is over all channels.
template <class T, bool kPartial>
struct RmsNormForward {
  static constexpr const char* kName = "rms_norm forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 1, kTerms = 1;
  struct Row {
    std::int64_t first;  // index of the row's first element
    Value rrms, weight;
  };

  T* y;                  // [rows, columns]
  Value *rrms, *weight;  // [rows]
  const T *x, *gamma;    // [rows, columns], [columns]
  std::int64_t rows, columns, k;
  Value eps;
  bool eps_outside;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {r * columns, 0, 0}; }
  FOLDGRAD_HD void reduce(Step<0>, const Row&, std::int64_t i, std::int64_t c, Value (&sums)[1]) const {
    sums[0] += kPartial && c >= k ? Value(0) : Value(x[i]) * Value(x[i]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const {
    const Value mean = sums[0] / Value(k), R = std::sqrt(mean);
    row.rrms = Value(1) / (eps_outside ? R + eps : std::sqrt(mean + eps));  // [RMS-1] [RMS-5]
    if (row.rrms == 0)  // the squares overflowed; compared with them, eps is negligible
      row.rrms = Value(std::sqrt(double(k)) / root_of_squares(k, [&](std::int64_t c) { return x[row.first + c]; }));
    row.weight = Value(1) / Value(k);
    if (eps_outside) row.weight = R == Value(0) ? Value(0) : (Value(1) + eps / R) / Value(k);  // [RMS-6]
  }
  FOLDGRAD_HD void keep(const Row& row, std::int64_t r) const {
    rrms[r] = row.rrms;
    weight[r] = row.weight;
  }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    return Value(gamma[c]) * (Value(x[i]) * row.rrms);  // [RMS-2]
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

  // `along` is w until finish() multiplies it by the sum.
  FOLDGRAD_HD Row row(std::int64_t r) const { return {rrms[r], weight[r]}; }
  FOLDGRAD_HD Value xhat(const Row& row, std::int64_t i) const { return Value(x[i]) * row.rrms; }
  FOLDGRAD_HD void reduce(Step<0>, const Row& row, std::int64_t i, std::int64_t c, Value (&sums)[1]) const {
    sums[0] += Value(dy[i]) * xhat(row, i) * Value(gamma[c]);
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&sums)[1]) const { row.along *= sums[0]; }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    const Value h = Value(dy[i]) * Value(gamma[c]), along = kPartial && c >= k ? Value(0) : row.along;
    return row.rrms * (h - xhat(row, i) * along);  // [RMS-3]
  }
  FOLDGRAD_HD void add(const Row& row, std::int64_t i, std::int64_t, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[i]) * xhat(row, i);  // [RMS-4]
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return dgamma; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(gamma), visit.row(rrms),
                    visit.row(weight));
};

template <class T>
using RmsNormOfAll = RmsNormForward<T, false>;
template <class T>
using RmsNormOfAllBackward = RmsNormBackward<T, false>;

FOLDGRAD_FASTER(row_in_registers, RmsNormOfAll);
FOLDGRAD_FASTER(row_with_column_sums_in_registers, RmsNormOfAllBackward);

}  // namespace foldgrad
