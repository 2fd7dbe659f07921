// Element-wise kernels for a function F, tanh or erf (engine/cpu/elementwise.h); parameter gradients are sums over rows
// (engine/cpu/column_sums.h). Kernels read alpha and shift themselves, so that the host never waits for their values.
// They do so before the loop: inside the loop, the compiler would have to assume that a store changes them, and could
// not vectorise.
#pragma once
#include "engine/cpu/vector_math.h"
#include "engine/kernels.h"

namespace foldgrad {

struct DytTanh {
  template <class V>
  FOLDGRAD_HD static V value(V u) {
    return fast_tanh(u);  // [DYT-1]
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V, V t) {
    return V(1) - t * t;
  }
};
struct DytErf {
  template <class V>
  FOLDGRAD_HD static V value(V u) {
    return fast_erf(u);  // [DERF-1]
  }
  template <class V>
  FOLDGRAD_HD static V derivative(V u, V) {
    return V(1.1283791670955126) * fast_exp_nonpositive(-u * u);  // 2 / sqrt(pi)
  }
};

// alpha and shift are [1]; shift is null for a function without a shift.
template <class T>
struct DytScalars {
  const T *alpha, *shift;
  compute_t<T> slope = 0, offset = 0;

  FOLDGRAD_HD void load() {
    slope = alpha[0];
    offset = shift ? compute_t<T>(shift[0]) : compute_t<T>(0);
  }
  FOLDGRAD_HD compute_t<T> u(compute_t<T> x) const { return slope * x + offset; }
};

template <class T, class F>
struct DytForward {
  static constexpr const char* kName = "dyt forward";
  using Value = compute_t<T>;

  T* y;                       // [rows, columns]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  DytScalars<T> scalars;
  std::int64_t rows, columns;

  FOLDGRAD_HD void start(std::int64_t, std::int64_t) { scalars.load(); }
  FOLDGRAD_HD T* target() const { return y; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    return Value(gamma[c]) * F::value(scalars.u(Value(x[i]))) + Value(beta[c]);  // [DYT-1] [DERF-1]
  }
  FOLDGRAD_OPERANDS(visit.result(y), visit.element(x), visit.column(gamma), visit.column(beta));
};

template <class T, class F>
struct DytBackward {
  static constexpr const char* kName = "dyt backward";
  using Value = compute_t<T>;
  static constexpr int kSums = 4;

  GradOut<T> dx;                                   // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;               // [columns]
  ParameterGradOut<T> dalpha_terms, dshift_terms;  // [columns]; their sums are da and ds (ops/total/total.h)
  const T *dy, *x, *gamma;                         // [rows, columns], [rows, columns], [columns]
  DytScalars<T> scalars;
  std::int64_t rows, columns;

  FOLDGRAD_HD void start(std::int64_t, std::int64_t) { scalars.load(); }
  // Returns the gradient of u.
  FOLDGRAD_HD Value du(std::int64_t i, std::int64_t c, Value u, Value t) const {
    return Value(dy[i]) * Value(gamma[c]) * F::derivative(u, t);
  }
  FOLDGRAD_HD const GradOut<T>& target() const { return dx; }
  FOLDGRAD_HD Value value(std::int64_t i, std::int64_t c) const {
    const Value u = scalars.u(Value(x[i]));
    return du(i, c, u, F::value(u)) * scalars.slope;  // [DYT-2]
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    const std::int64_t i = r * columns + c;
    const Value u = scalars.u(Value(x[i])), t = F::value(u), du_i = du(i, c, u, t);
    sums[0] += Value(dy[i]) * t;  // [DYT-3]
    sums[1] += Value(dy[i]);
    sums[2] += du_i * Value(x[i]);  // [DYT-4]
    sums[3] += du_i;                // [DERF-2]
  }
  FOLDGRAD_HD const ParameterGradOut<T>& total(int k) const {
    return k == 0 ? dgamma : k == 1 ? dbeta : k == 2 ? dalpha_terms : dshift_terms;
  }
  FOLDGRAD_OPERANDS(visit.result(dx), visit.element(dy), visit.element(x), visit.column(gamma));
};

}  // namespace foldgrad
