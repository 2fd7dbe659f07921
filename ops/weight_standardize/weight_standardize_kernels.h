#pragma once
#include "engine/kernels.h"
#include "ops/weight_standardize/weight_standardize_math.h"

namespace foldgrad {

template <class T>
struct WeightStandardizeForward {
  using Value = compute_t<T>;

  T* what;              // [units, fan_in]
  Value *mu, *rs, *cs;  // [units]
  const T *W, *g;       // [units, fan_in], [units]
  std::int64_t units, fan_in;
  Value c, minimum;

  // Saves a unit's statistics for the backward pass.
  FOLDGRAD_HD void save(std::int64_t o, Value mu_o, const weight_standardize_math::Scale<Value>& s) const {
    mu[o] = mu_o;
    rs[o] = s.rs;
    cs[o] = s.c;
  }
};

template <class T>
struct WeightStandardizeBackward {
  using Value = compute_t<T>;

  GradOut<T> dW, dg;          // [units, fan_in], [units]
  const T *dwhat, *W, *g;     // [units, fan_in], [units, fan_in], [units]
  const Value *mu, *rs, *cs;  // [units]
  std::int64_t units, fan_in;
};

FOLDGRAD_DECLARE(weight_standardize, WeightStandardizeForward);
FOLDGRAD_DECLARE(weight_standardize, WeightStandardizeBackward);

}  // namespace foldgrad
