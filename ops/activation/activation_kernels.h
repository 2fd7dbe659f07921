#pragma once
#include "engine/kernels.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

template <class T>
struct ActivationForward {
  T* y;
  const T* x;
  std::int64_t n;
  Activation activation;
};

template <class T>
struct ActivationBackward {
  GradOut<T> dx;
  const T *dy, *saved;  // saved: y or x (kFromOutput)
  std::int64_t n;
  Activation activation;
};

template <class T>
struct BiasActivationForward {
  T* y;               // [rows, columns]
  const T *x, *bias;  // [rows, columns], [columns]
  std::int64_t rows, columns;
  Activation activation;
};

template <class T>
struct BiasActivationBackward {
  GradOut<T> dx;               // [rows, columns]
  ParameterGradOut<T> dbias;   // [columns]
  const T *dy, *saved, *bias;  // [rows, columns], [rows, columns], [columns]; bias is not read if kFromOutput
  std::int64_t rows, columns;
  Activation activation;
};

FOLDGRAD_DECLARE(activation, ActivationForward);
FOLDGRAD_DECLARE(activation, ActivationBackward);
FOLDGRAD_DECLARE(activation, BiasActivationForward);
FOLDGRAD_DECLARE(activation, BiasActivationBackward);

// The same with the activation F known: what the loops of both devices run (engine/cpu/elementwise.h).

template <class T, class F>
struct Activate {
  ActivationForward<T> p;

  FOLDGRAD_HD T* target() const { return p.y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const { return F::value(compute_t<T>(p.x[i])); }
  FOLDGRAD_OPERANDS(visit.result(p.y), visit.element(p.x));
};

template <class T, class F>
struct ActivateBackward {
  ActivationBackward<T> p;

  FOLDGRAD_HD const GradOut<T>& target() const { return p.dx; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const {
    return compute_t<T>(p.dy[i]) * F::derivative(compute_t<T>(p.saved[i]));  // [ACT-7]
  }
  FOLDGRAD_OPERANDS(visit.result(p.dx), visit.element(p.dy), visit.element(p.saved));
};

template <class T, class F>
struct BiasActivate {
  BiasActivationForward<T> p;

  FOLDGRAD_HD T* target() const { return p.y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    return F::value(compute_t<T>(p.x[i]) + compute_t<T>(p.bias[c]));  // [ACT-8]
  }
  FOLDGRAD_OPERANDS(visit.result(p.y), visit.element(p.x), visit.column(p.bias));
};

// dx element by element, and dbias as sums over rows (engine/cpu/column_sums.h).
template <class T, class F>
struct BiasActivateBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  BiasActivationBackward<T> p;
  std::int64_t rows = p.rows, columns = p.columns;

  FOLDGRAD_HD const GradOut<T>& target() const { return p.dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    Value at = p.saved[i];
    if (!F::kFromOutput) at += Value(p.bias[c]);
    return Value(p.dy[i]) * F::derivative(at);  // [ACT-8]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += value(r * columns + c, c);
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return p.dbias; }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(p.dx);
    visit.element(p.dy);
    visit.element(p.saved);
    if (!F::kFromOutput) visit.column(p.bias);
  }
};

}  // namespace foldgrad
