// Softmax along the rows of a matrix (engine/cpu/row_op.h).
#pragma once
#include "engine/kernels.h"
#include "ops/softmax/softmax_math.h"

namespace foldgrad {

template <class T, bool kMasked>
struct SoftmaxForward {
  static constexpr const char* kName = "softmax forward";
  using Value = compute_t<T>;
  static constexpr int kSteps = 2, kTerms = 1, kMaxStep = 0;
  struct Row {
    const std::uint8_t* mask;
    Value max, scale;
  };

  T* y;                      // [rows, columns]
  const T* x;                // [rows, columns]
  const std::uint8_t* mask;  // [rows / rows_per_mask, columns], if kMasked
  std::int64_t rows, columns;
  std::int64_t rows_per_mask;

  FOLDGRAD_HD Row row(std::int64_t r) const { return {kMasked ? mask + r / rows_per_mask * columns : nullptr, 0, 0}; }
  // Entries are read in any case and chosen afterwards, so that loops vectorise.
  FOLDGRAD_HD Value attended(const Row& row, std::int64_t c, Value value, Value otherwise) const {
    return !kMasked || row.mask[c] != 0 ? value : otherwise;
  }
  FOLDGRAD_HD void reduce(Step<0>, const Row& row, std::int64_t i, std::int64_t c, Value (&max)[1]) const {
    const Value value = attended(row, c, Value(x[i]), softmax_math::nothing<Value>());
    max[0] = value > max[0] ? value : max[0];
  }
  FOLDGRAD_HD void finish(Step<0>, Row& row, const Value (&max)[1]) const { row.max = softmax_math::shift(max[0]); }
  FOLDGRAD_HD Value exponential(const Row& row, std::int64_t i, std::int64_t c) const {
    return attended(row, c, softmax_math::exponential(Value(x[i]), row.max), Value(0));
  }
  FOLDGRAD_HD void reduce(Step<1>, const Row& row, std::int64_t i, std::int64_t c, Value (&sums)[1]) const {
    sums[0] += exponential(row, i, c);
  }
  FOLDGRAD_HD void finish(Step<1>, Row& row, const Value (&sums)[1]) const { row.scale = softmax_math::scale(sums[0]); }
  FOLDGRAD_HD void keep(const Row&, std::int64_t) const {}
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(const Row& row, std::int64_t i, std::int64_t c) const {
    return softmax_math::y(exponential(row, i, c), row.scale);
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
    return softmax_math::dx(Value(y[i]), Value(dy[i]), row.sum_dy_y);
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(y));
};

template <class T>
using SoftmaxOfAll = SoftmaxForward<T, false>;
template <class T>
using SoftmaxOfAttended = SoftmaxForward<T, true>;

FOLDGRAD_FASTER(cpu, softmax_with_kept_exponentials, SoftmaxOfAll);
FOLDGRAD_FASTER(cpu, softmax_with_kept_exponentials, SoftmaxOfAttended);
FOLDGRAD_FASTER(cuda, row_in_registers, SoftmaxOfAll);
FOLDGRAD_FASTER(cuda, row_in_registers, SoftmaxBackward);

}  // namespace foldgrad
