#pragma once
#include "engine/kernels.h"
#include "ops/scale_norm/scale_norm_math.h"

namespace foldgrad {

template <class T>
struct ScaleNormForward {
  T* y;                 // [rows, columns]
  compute_t<T>* rnorm;  // [rows]
  const T *x, *g;       // [rows, columns], [1] or null for 1
  std::int64_t rows, columns;
  compute_t<T> eps;

  FOLDGRAD_HD compute_t<T> gain() const { return g ? compute_t<T>(g[0]) : compute_t<T>(1); }
};

template <class T>
struct ScaleNormBackward {
  GradOut<T> dx;              // [rows, columns]
  compute_t<T>* dy_u;         // [rows]: dy . u, whose total is dg (ops/total/total.h)
  const T *dy, *x, *g;        // [rows, columns], [rows, columns], [1] or null for 1
  const compute_t<T>* rnorm;  // [rows]
  std::int64_t rows, columns;
  compute_t<T> eps;

  FOLDGRAD_HD compute_t<T> gain() const { return g ? compute_t<T>(g[0]) : compute_t<T>(1); }
};

FOLDGRAD_DECLARE(scale_norm, ScaleNormForward);
FOLDGRAD_DECLARE(scale_norm, ScaleNormBackward);

}  // namespace foldgrad
