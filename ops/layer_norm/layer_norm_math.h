// The formulas of layer_norm.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/host_device.h"

namespace foldgrad::layer_norm_math {

template <class T>
FOLDGRAD_HD T squared_deviation(T x, T mu) {
  return (x - mu) * (x - mu);  // [LN-1]
}
template <class T>
FOLDGRAD_HD T rstd(T sigma2, T eps) {
  return T(1) / std::sqrt(sigma2 + eps);  // [LN-2]
}
template <class T>
FOLDGRAD_HD T xhat(T x, T mu, T rstd) {
  return (x - mu) * rstd;  // [LN-2]
}
template <class T>
FOLDGRAD_HD T y(T xhat, T gamma, T beta) {
  return gamma * xhat + beta;  // [LN-3]
}
template <class T>
FOLDGRAD_HD T dx(T h, T xhat, T rstd, T mean_h, T mean_h_xhat) {
  return rstd * (h - mean_h - xhat * mean_h_xhat);  // [LN-4]
}
// A row's share.
template <class T>
FOLDGRAD_HD T dgamma(T dy, T xhat) {
  return dy * xhat;  // [LN-5]
}

}  // namespace foldgrad::layer_norm_math
