// Elements with an activation F and a mask (engine/cpu/elementwise.h), and the gradient of the bias as sums over rows.
// Values that two operations would store in between are rounded as they would.
#pragma once
#include "engine/kernels.h"
#include "ops/activation/activation_math.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {

template <class T, class F>
struct BiasActivationDropoutForward {
  static constexpr const char* kName = "bias_activation_dropout forward";
  using Value = compute_t<T>;

  T* y;               // [rows, columns]
  const T *x, *bias;  // [rows, columns], [columns]
  std::int64_t rows, columns;
  Mask<Value> mask;

  FOLDGRAD_DRAWS_MASK();
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c, std::uint32_t bits) const {
    const Value active = F::value(Value(x[i]) + Value(bias[c]));
    return mask.apply(Value(T(active)), bits);  // [ACT-9]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(bias));
};

template <class T, class F>
struct BiasActivationDropoutBackward {
  static constexpr const char* kName = "bias_activation_dropout backward";
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> dx;              // [rows, columns]
  ParameterGradOut<T> dbias;  // [columns]
  const T *dy, *x, *bias;     // [rows, columns], [rows, columns], [columns]
  std::int64_t rows, columns;
  Mask<Value> mask;

  FOLDGRAD_DRAWS_MASK();
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c, std::uint32_t bits) const {
    Value at = Value(x[i]) + Value(bias[c]);
    if (F::kFromOutput) at = Value(T(F::value(at)));
    return Value(T(mask.apply(Value(dy[i]), bits))) * F::derivative(at);  // [ACT-9]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, std::uint32_t bits, Value (&sums)[kSums]) const {
    sums[0] += value(r * columns + c, c, bits);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return dbias; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(bias));
};

// The structs of an activation with the type of elements left open, for FOLDGRAD_INSTANTIATE.
template <class F>
struct BiasActivationDropoutKernels {
  template <class T>
  using Forward = BiasActivationDropoutForward<T, F>;
  template <class T>
  using Backward = BiasActivationDropoutBackward<T, F>;
};

}  // namespace foldgrad
