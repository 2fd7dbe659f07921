#pragma once
#include "engine/kernels.h"
#include "ops/group_norm/group_norm_math.h"

namespace foldgrad {

struct GroupNormShape {
  const std::int64_t* offsets;  // [samples + 1]: the first row of each; null: each row is a sample
  std::int64_t samples, rows, columns, groups;

  FOLDGRAD_HD std::int64_t begin(std::int64_t s) const { return offsets ? offsets[s] : s; }
  FOLDGRAD_HD std::int64_t end(std::int64_t s) const { return offsets ? offsets[s + 1] : s + 1; }
  // 1/m, 0 for a sample without rows.
  template <class Value>
  FOLDGRAD_HD Value weight(std::int64_t s) const {
    const std::int64_t m = (end(s) - begin(s)) * (columns / groups);
    return m > 0 ? Value(1) / Value(m) : Value(0);
  }
};

template <class T>
struct GroupNormForward {
  T* y;                       // [rows, columns]
  compute_t<T>*mu, *rstd;     // [samples, groups]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  GroupNormShape shape;
  compute_t<T> eps;
};

template <class T>
struct GroupNormBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;  // dgamma and dbeta, as sums over rows (engine/cpu/column_sums.h)

  GradOut<T> dx;
  ParameterGradOut<T> dgamma, dbeta;
  const T *dy, *x, *gamma;
  const Value *mu, *rstd;
  const std::int64_t* sample_of_row;  // [rows], on CUDA; null: each row is a sample
  GroupNormShape shape;
  std::int64_t rows, columns;  // of the sums: samples on the CPU, which takes one at a time; rows on CUDA

  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const { return k == 0 ? dgamma : dbeta; }
};

FOLDGRAD_DECLARE(group_norm, GroupNormForward);
FOLDGRAD_DECLARE(group_norm, GroupNormBackward);

}  // namespace foldgrad
