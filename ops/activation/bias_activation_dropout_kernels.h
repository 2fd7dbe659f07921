#pragma once
#include "engine/kernels.h"
#include "ops/activation/activation_math.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {

template <class T>
struct BiasActivationDropoutForward {
  T* y;               // [rows, columns]
  const T *x, *bias;  // [rows, columns], [columns]
  std::int64_t rows, columns;
  Activation activation;
  Mask<compute_t<T>> mask;
};

template <class T>
struct BiasActivationDropoutBackward {
  GradOut<T> dx;              // [rows, columns]
  ParameterGradOut<T> dbias;  // [columns]
  const T *dy, *x, *bias;     // [rows, columns], [rows, columns], [columns]
  std::int64_t rows, columns;
  Activation activation;
  Mask<compute_t<T>> mask;
};

FOLDGRAD_DECLARE(bias_activation_dropout, BiasActivationDropoutForward);
FOLDGRAD_DECLARE(bias_activation_dropout, BiasActivationDropoutBackward);

// The same with the activation F known. What two operations would store in between is rounded as they would.

template <class T, class F>
struct ActivateAndDrop {
  using Value = compute_t<T>;
  BiasActivationDropoutForward<T> p;

  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c, std::uint32_t bits) const {
    const Value active = F::value(Value(p.x[i]) + Value(p.bias[c]));
    return p.mask.apply(Value(T(active)), bits);  // [ACT-9]
  }
};

// dx element by element, and dbias as sums over rows (engine/cpu/column_sums.h).
template <class T, class F>
struct ActivateAndDropBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  BiasActivationDropoutBackward<T> p;
  std::int64_t rows = p.rows, columns = p.columns;

  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c, std::uint32_t bits) const {
    Value at = Value(p.x[i]) + Value(p.bias[c]);
    if (F::kFromOutput) at = Value(T(F::value(at)));
    return Value(T(p.mask.apply(Value(p.dy[i]), bits))) * F::derivative(at);  // [ACT-9]
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return p.dbias; }
};

}  // namespace foldgrad
