// Element-wise kernels with sums over rows (engine/cpu/elementwise.h, engine/cpu/column_sums.h).
#pragma once
#include "engine/grad_out.h"

namespace foldgrad {

template <class T>
struct AffineForward {
  T* y;                       // [rows, columns]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  std::int64_t rows, columns;

  T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    using Value = compute_t<T>;
    return Value(gamma[c]) * Value(x[i]) + Value(beta[c]);  // [AFF-1]
  }
  FOLDGRAD_HD void operator()(std::int64_t i, std::int64_t c) const { y[i] = T(value(i, c)); }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(y);
    visit.element(x);
    visit.column(gamma);
    visit.column(beta);
  }
};

template <class T>
struct AffineBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 2;

  GradOut<T> dx;                      // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  const T *dy, *x, *gamma;            // [rows, columns], [rows, columns], [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD void operator()(std::int64_t i, std::int64_t c) const {
    if (dx) dx.put(i, Value(dy[i]) * Value(gamma[c]));  // [AFF-2]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    const Value dy_rc = dy[r * columns + c];
    sums[0] += dy_rc * Value(x[r * columns + c]);  // [AFF-2]
    sums[1] += dy_rc;
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const { return k == 0 ? dgamma : dbeta; }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(dx);
    visit.element(dy);
    visit.element(x);
    visit.column(gamma);
  }
};

template <class T>
struct ScaleByForward {
  T* y;
  const T *x, *eta;  // [rows, columns], [1]
  std::int64_t rows, columns;

  T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t) const {
    return compute_t<T>(eta[0]) * compute_t<T>(x[i]);  // [AFF-3]
  }
  FOLDGRAD_HD void operator()(std::int64_t i, std::int64_t c) const { y[i] = T(value(i, c)); }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(y);
    visit.element(x);
  }
};

// deta ends as a total of the columns' sums (ops/total/total.h).
template <class T>
struct ScaleByBackward {
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> dx;          // [rows, columns]
  Value* deta;            // [columns], null when not wanted
  const T *dy, *x, *eta;  // [rows, columns], [rows, columns], [1]
  std::int64_t rows, columns;

  FOLDGRAD_HD void operator()(std::int64_t i, std::int64_t) const {
    if (dx) dx.put(i, Value(eta[0]) * Value(dy[i]));  // [AFF-4]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[r * columns + c]) * Value(x[r * columns + c]);  // [AFF-4]
  }
  FOLDGRAD_HD void put(std::int64_t c, const Value (&sums)[kSums]) const {
    if (deta) deta[c] = sums[0];
  }

  // For packs (engine/cuda/operands.h).
  template <class Visit>
  FOLDGRAD_HD void operands(Visit& visit) {
    visit.result(dx);
    visit.element(dy);
    visit.element(x);
  }
};

// Kernel is one of the above: forward element by element, backward also column by column.
template <class Kernel>
void affine_cpu(const Kernel& p);
template <class Kernel>
void affine_cuda(const Kernel& p);
template <class Kernel>
void affine_backward_cpu(const Kernel& p);
template <class Kernel>
void affine_backward_cuda(const Kernel& p);

}  // namespace foldgrad
