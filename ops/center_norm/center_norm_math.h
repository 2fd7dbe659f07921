// The formulas of center_norm.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include "engine/host_device.h"

namespace foldgrad::center_norm_math {

template <class T>
FOLDGRAD_HD T z(T x, T mu, T k) {
  return k * (x - mu);  // [CEN-1]
}
template <class T>
FOLDGRAD_HD T y(T z, T gamma, T beta) {
  return gamma * z + beta;  // [CEN-2]
}
template <class T>
FOLDGRAD_HD T dx(T h, T mean_h, T k) {
  return k * (h - mean_h);  // [CEN-3]
}
// A row's share.
template <class T>
FOLDGRAD_HD T dgamma(T dy, T z) {
  return dy * z;  // [CEN-4]
}

}  // namespace foldgrad::center_norm_math
