#pragma once
#include "engine/kernels.h"
#include "ops/rms_norm/rms_norm_math.h"

namespace foldgrad {

template <class T>
struct RmsNormForward {
  T* y;                        // [rows, columns]
  compute_t<T>*rrms, *weight;  // [rows]
  const T *x, *gamma;          // [rows, columns], [columns]
  std::int64_t rows, columns, k;
  compute_t<T> eps;
  bool eps_outside;

  // Of a row with this sum of squares; returns rrms.
  FOLDGRAD_HD compute_t<T> finish(std::int64_t r, compute_t<T> squares) const {
    const compute_t<T> mean = squares / compute_t<T>(k);
    weight[r] = rms_norm_math::weight(mean, compute_t<T>(k), eps, eps_outside);
    return rrms[r] = rms_norm_math::rrms(mean, eps, eps_outside);
  }
};

template <class T>
struct RmsNormBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;  // dgamma, as a sum over rows (engine/cpu/column_sums.h)

  GradOut<T> dx;                     // [rows, columns]
  ParameterGradOut<T> dgamma;        // [columns]
  const T *dy, *x, *gamma;           // [rows, columns], [rows, columns], [columns]
  const compute_t<T>*rrms, *weight;  // [rows]
  std::int64_t rows, columns, k;

  FOLDGRAD_HD Value xhat(std::int64_t r, std::int64_t c) const {
    return rms_norm_math::xhat(Value(x[r * columns + c]), rrms[r]);
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += rms_norm_math::dgamma(Value(dy[r * columns + c]), xhat(r, c));
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return dgamma; }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.element(dy);
    visit.element(x);
    visit.row(rrms);
  }
};

FOLDGRAD_DECLARE(rms_norm, RmsNormForward);
FOLDGRAD_DECLARE(rms_norm, RmsNormBackward);

}  // namespace foldgrad
