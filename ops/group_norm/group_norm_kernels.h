#pragma once
#include "engine/kernels.h"
#include "ops/group_norm/group_norm_math.h"

namespace foldgrad {

template <class T>
struct GroupNormForward {
  T* y;                       // [samples, positions, columns]
  compute_t<T>*mu, *rstd;     // [samples, groups]
  compute_t<T>* weight;       // [samples]: 1/m
  const T *x, *gamma, *beta;  // [samples, positions, columns], [columns], [columns]
  const std::uint8_t* mask;   // [samples, positions]; null: all are real
  std::int64_t samples, positions, columns, groups;
  compute_t<T> eps;
};

template <class T>
struct GroupNormBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;  // dgamma and dbeta, as sums over rows (engine/cpu/column_sums.h)

  GradOut<T> dx;
  ParameterGradOut<T> dgamma, dbeta;
  const T *dy, *x, *gamma;
  const Value *mu, *rstd, *weight;
  const std::uint8_t* mask;
  std::int64_t samples, positions, columns, groups;
  std::int64_t rows;  // of the sums: samples on the CPU, which takes one at a time; samples x positions on CUDA

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    const std::int64_t set = r / positions * groups + c / (columns / groups);
    const Value dy_rc = dy[r * columns + c];
    sums[0] += group_norm_math::dgamma(dy_rc, group_norm_math::xhat(Value(x[r * columns + c]), mu[set], rstd[set]));
    sums[1] += dy_rc;
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const { return k == 0 ? dgamma : dbeta; }
};

FOLDGRAD_DECLARE(group_norm, GroupNormForward);
FOLDGRAD_DECLARE(group_norm, GroupNormBackward);

}  // namespace foldgrad
