#pragma once
#include "engine/kernels.h"
#include "ops/dyt/dyt_math.h"

namespace foldgrad {

template <class T>
struct DytForward {
  T* y;                       // [rows, columns]
  const T *x, *gamma, *beta;  // [rows, columns], [columns], [columns]
  const T *alpha, *shift;     // [1]; without shift null, and the function is tanh
  std::int64_t rows, columns;
};

template <class T>
struct DytBackward {
  GradOut<T> dx;                      // [rows, columns]
  ParameterGradOut<T> dgamma, dbeta;  // [columns]
  compute_t<T>*dalpha, *dshift;       // [columns], to be totalled (ops/total/total.h); null when not wanted
  const T *dy, *x, *gamma;            // [rows, columns], [rows, columns], [columns]
  const T *alpha, *shift;
  std::int64_t rows, columns;
};

FOLDGRAD_DECLARE(dyt, DytForward);
FOLDGRAD_DECLARE(dyt, DytBackward);

// The same with the function F known and the scalars read: what the loops of both devices run.

template <class T>
struct DytScalars {
  compute_t<T> alpha, shift;

  template <class P>
  FOLDGRAD_HD static DytScalars read(const P& p) {
    return {compute_t<T>(p.alpha[0]), p.shift ? compute_t<T>(p.shift[0]) : compute_t<T>(0)};
  }
  FOLDGRAD_HD compute_t<T> u(compute_t<T> x) const { return alpha * x + shift; }
};

template <class T, class F>
struct DytElement {
  using Params = DytForward<T>;
  Params p;
  DytScalars<T> k;

  FOLDGRAD_HD void operator()(std::int64_t i, std::int64_t c) const {
    using Value = compute_t<T>;
    p.y[i] = T(Value(p.gamma[c]) * F::value(k.u(Value(p.x[i]))) + Value(p.beta[c]));  // [DYT-1] [DERF-1]
  }
};

template <class T, class F>
struct DytBackwardElement {
  using Value = compute_t<T>;
  using Params = DytBackward<T>;
  static constexpr int kSums = 4;

  Params p;
  DytScalars<T> k;
  std::int64_t rows = p.rows, columns = p.columns;

  // Adds element i's shares of dgamma, dbeta, dalpha and dshift, and returns its dx.
  FOLDGRAD_HD Value gradients(std::int64_t i, std::int64_t c, Value (&sums)[kSums]) const {
    const Value dy = p.dy[i], x = p.x[i], u = k.u(x), t = F::value(u);
    const Value du = dy * Value(p.gamma[c]) * F::derivative(u, t);
    sums[0] += dy * t;  // [DYT-3]
    sums[1] += dy;
    sums[2] += du * x;    // [DYT-4]
    sums[3] += du;        // [DERF-2]
    return du * k.alpha;  // [DYT-2]
  }
  FOLDGRAD_HD void operator()(std::int64_t i, std::int64_t c) const {
    Value unused[kSums] = {};
    if (p.dx) p.dx.put(i, gradients(i, c, unused));
  }
  FOLDGRAD_HD void add(std::int64_t r, std::int64_t c, Value (&sums)[kSums]) const {
    gradients(r * columns + c, c, sums);
  }
  FOLDGRAD_HD void put(std::int64_t c, const Value (&sums)[kSums]) const {
    if (p.dgamma) p.dgamma.put(c, sums[0]);
    if (p.dbeta) p.dbeta.put(c, sums[1]);
    if (p.dalpha) p.dalpha[c] = sums[2];
    if (p.dshift) p.dshift[c] = sums[3];
  }
};

}  // namespace foldgrad
