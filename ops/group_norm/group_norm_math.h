// The formulas of group_norm.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/dtype.h"

namespace foldgrad::group_norm_math {

template <class T>
FOLDGRAD_HD T squared_deviation(T x, T mu) {
  return (x - mu) * (x - mu);  // [GN-1]
}
// weight = 1/m, 0 for a sample without rows.
template <class T>
FOLDGRAD_HD T rstd(T squares, T weight, T eps) {
  return weight > 0 ? T(1) / std::sqrt(squares * weight + eps) : T(0);  // [GN-2]
}
template <class T>
FOLDGRAD_HD T xhat(T x, T mu, T rstd) {
  return (x - mu) * rstd;  // [GN-2]
}
template <class T>
FOLDGRAD_HD T y(T xhat, T gamma, T beta) {
  return gamma * xhat + beta;  // [GN-3]
}
template <class T>
FOLDGRAD_HD T dx(T h, T xhat, T rstd, T sum_h, T sum_h_xhat, T weight) {
  return rstd * (h - weight * (sum_h + xhat * sum_h_xhat));  // [GN-4]
}
// A row's share.
template <class T>
FOLDGRAD_HD T dgamma(T dy, T xhat) {
  return dy * xhat;  // [GN-5]
}

}  // namespace foldgrad::group_norm_math
