// The formulas of scale_norm.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/host_device.h"

namespace foldgrad::scale_norm_math {

template <class T>
FOLDGRAD_HD T rnorm(T squares, T eps) {
  const T norm = std::sqrt(squares);
  return T(1) / (norm < eps ? eps : norm);  // [SN-1]; NaN stays NaN
}
template <class T>
FOLDGRAD_HD T u(T x, T rnorm) {
  return x * rnorm;  // [SN-1]
}
// g_rnorm = g rnorm, with g = 1 for unit_rows.
template <class T>
FOLDGRAD_HD T y(T x, T g_rnorm) {
  return g_rnorm * x;  // [SN-1] [FN-1]
}
// Returns the factor of u in dx, 0 below the clamp.
template <class T>
FOLDGRAD_HD T along(T dy_u, T rnorm, T eps) {
  return rnorm < T(1) / eps ? dy_u : T(0);
}
template <class T>
FOLDGRAD_HD T dx(T dy, T u, T g_rnorm, T along) {
  return g_rnorm * (dy - u * along);  // [SN-2]
}

}  // namespace foldgrad::scale_norm_math
