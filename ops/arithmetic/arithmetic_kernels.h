// Element-wise kernels of add, sub, mul, scale and add_bias (engine/cpu/elementwise.h).
#pragma once
#include "engine/kernels.h"

namespace foldgrad {

struct Plus {
  template <class V>
  FOLDGRAD_HD V operator()(V a, V b) const {
    return a + b;  // [AR-1]
  }
};
struct Minus {
  template <class V>
  FOLDGRAD_HD V operator()(V a, V b) const {
    return a - b;  // [AR-2]
  }
};
struct Times {
  template <class V>
  FOLDGRAD_HD V operator()(V a, V b) const {
    return a * b;  // [AR-3]
  }
};

template <class T, class Formula>
struct BinaryForward {
  static constexpr const char* kName = "arithmetic";
  T* y;
  const T *a, *b;
  std::int64_t n;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const { return Formula()(compute_t<T>(a[i]), compute_t<T>(b[i])); }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(a), visit.element(b));
};

template <class T>
struct MulBackward {
  static constexpr const char* kName = "mul backward";
  GradOut<T> da, db;
  const T *dy, *a, *b;
  std::int64_t n;

  FOLDGRAD_HD void operator()(std::int64_t i) const {
    const compute_t<T> dy_i = dy[i], a_i = a[i], b_i = b[i];
    if (da) da.put(i, dy_i * b_i);  // [AR-3]
    if (db) db.put(i, dy_i * a_i);
  }
  FOLDGRAD_OPERANDS(visit.result(da), visit.result(db), visit.element(dy), visit.element(a), visit.element(b));
};

// Computes y from a in the forward pass, and da from dy in the backward pass. With s = -1, computes db of [AR-2].
template <class T>
struct Scale {
  static constexpr const char* kName = "scale";
  GradOut<T> y;
  const T* a;
  std::int64_t n;
  compute_t<T> s;

  FOLDGRAD_HD const GradOut<T>& target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i) const { return s * compute_t<T>(a[i]); }  // [AR-4]
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(a));
};

template <class T>
struct AddBiasForward {
  static constexpr const char* kName = "add_bias forward";
  T* y;               // [rows, columns]
  const T *x, *bias;  // [rows, columns], [columns]
  std::int64_t rows, columns;

  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t i, std::int64_t c) const {
    return compute_t<T>(x[i]) + compute_t<T>(bias[c]);  // [AR-5]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(bias));
};

}  // namespace foldgrad
