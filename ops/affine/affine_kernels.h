// Kernels of affine and scale_by (engine/cpu/elementwise.h). Parameter gradients are sums over rows
// (engine/cpu/column_sums.h).
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct AffineForward {
  static constexpr const char* kName = "affine forward";
  T* y;                       // [rows, columns]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    using Value = compute_t<T>;
    return Value(gamma[c]) * Value(x[i]) + Value(beta[c]);  // [AFF-1]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma), visit.column(beta));
};

template <class T>
struct AffineBackward {
  static constexpr const char* kName = "affine backward";
  using Value = compute_t<T>;
  static constexpr int kSums = 2;

  GradOut<T> dx;                      // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  const T *dy, *x, *gamma;            // [rows, columns], [rows, columns], [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    return Value(dy[i]) * Value(gamma[c]);  // [AFF-2]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    const Value dy_rc = dy[r * columns + c];
    sums[0] += dy_rc * Value(x[r * columns + c]);  // [AFF-2]
    sums[1] += dy_rc;
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const { return k == 0 ? dgamma : dbeta; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(gamma));
};

template <class T>
struct ScaleByForward {
  static constexpr const char* kName = "scale_by forward";
  T* y;
  const T *x, *eta;  // [rows, columns], [1]
  std::int64_t rows, columns;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t) const {
    return compute_t<T>(eta[0]) * compute_t<T>(x[i]);  // [AFF-3]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x));
};

template <class T>
struct ScaleByBackward {
  static constexpr const char* kName = "scale_by backward";
  using Value = compute_t<T>;
  static constexpr int kSums = 1;

  GradOut<T> dx;                        // [rows, columns]
  ParameterGradOut<T> columns_of_deta;  // [columns]; their sum is deta (ops/total/total.h)
  const T *dy, *x, *eta;                // [rows, columns], [rows, columns], [1]
  std::int64_t rows, columns;

  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t) const {
    return Value(eta[0]) * Value(dy[i]);  // [AFF-4]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    sums[0] += Value(dy[r * columns + c]) * Value(x[r * columns + c]);  // [AFF-4]
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int) const { return columns_of_deta; }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x));
};

}  // namespace foldgrad
