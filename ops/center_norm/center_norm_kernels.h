#pragma once
#include "engine/kernels.h"
#include "ops/center_norm/center_norm_math.h"

namespace foldgrad {

template <class T>
struct CenterNormForward {
  T* y;                       // [rows, columns]
  compute_t<T>* mu;           // [rows]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  std::int64_t rows, columns;
  compute_t<T> k;
};

template <class T>
struct CenterNormBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;  // dgamma and dbeta, as sums over rows (engine/cpu/column_sums.h)

  GradOut<T> dx;                      // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  const T *dy, *x, *gamma;            // [rows, columns], [rows, columns], [columns]
  const compute_t<T>* mu;             // [rows]
  std::int64_t rows, columns;
  Value k;

  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    const Value dy_rc = dy[r * columns + c];
    sums[0] += center_norm_math::dgamma(dy_rc, center_norm_math::z(Value(x[r * columns + c]), mu[r], k));
    sums[1] += dy_rc;
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const { return k == 0 ? dgamma : dbeta; }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.element(dy);
    visit.element(x);
    visit.row(mu);
  }
};

FOLDGRAD_DECLARE(center_norm, CenterNormForward);
FOLDGRAD_DECLARE(center_norm, CenterNormBackward);

}  // namespace foldgrad
