// Kernels that apply and differentiate an activation F element by element (engine/cpu/elementwise.h). Gradients of
// biases are sums over rows (engine/cpu/column_sums.h).
#pragma once
#include "engine/kernels.h"
#include "ops/activation/activation_math.h"
#include "ops/dropout/dropout_kernels.h"

namespace foldgrad {

template <class T, class F>
struct ActivationForward {
  static constexpr const char* kName = "activation forward";
  T* y;
  const T* x;
  std::int64_t n;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const { return F::value(compute_t<T>(x[i])); }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

template <class T, class F>
struct ActivationBackward {
  static constexpr const char* kName = "activation backward";
  GradOut<T> dx;
  const T *dy, *saved;  // saved is y if kFromOutput, otherwise x
  std::int64_t n;

  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const {
    return compute_t<T>(dy[i]) * F::derivative(compute_t<T>(saved[i]));  // [ACT-7]
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(saved));
};

template <class T, class F>
struct BiasActivationForward {
  static constexpr const char* kName = "bias_activation forward";
  T* y;               // [rows, columns]
  const T *x, *bias;  // [rows, columns], [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    return F::value(compute_t<T>(x[i]) + compute_t<T>(bias[c]));  // [ACT-8]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(bias));
};

template <class T, class F>
struct BiasActivationBackward {
  static constexpr const char* kName = "bias_activation backward";
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> dx;               // [rows, columns]
  ParameterGradOut<T> dbias;   // [columns]
  const T *dy, *saved, *bias;  // [rows, columns], [rows, columns], [columns]; bias is not read if kFromOutput
  std::int64_t rows, columns;

  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    Value at = saved[i];
    if (!F::kFromOutput) at += Value(bias[c]);
    return Value(dy[i]) * F::derivative(at);  // [ACT-8]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += value(r * columns + c, c);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return dbias; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(saved),
                    F::kFromOutput ? void() : visit.column(bias));
};
// The next two structs round to T where bias_activation followed by dropout would, so that results are bit-identical.
template <class T, class F>
struct BiasActivationDropoutForward {
  static constexpr const char* kName = "bias_activation_dropout forward";
  using Value = compute_t<T>;

  T* y;               // [rows, columns]
  const T *x, *bias;  // [rows, columns], [columns]
  std::int64_t rows, columns;
  Mask<Value> mask;

  FOLDGRAD_DRAWS_MASK(/*can_be_0=*/false);
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

  FOLDGRAD_DRAWS_MASK(/*can_be_0=*/false);
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

}  // namespace foldgrad
