// The formulas of rms_norm.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/host_device.h"

namespace foldgrad::rms_norm_math {

template <class T>
FOLDGRAD_HD T rrms(T mean_square, T eps) {
  return T(1) / std::sqrt(mean_square + eps);  // [RMS-1]
}
template <class T>
FOLDGRAD_HD T y(T x, T rrms, T gamma) {
  return gamma * (x * rrms);  // [RMS-2]
}
template <class T>
FOLDGRAD_HD T dx(T g, T xhat, T rrms, T mean_g_xhat) {
  return rrms * (g - xhat * mean_g_xhat);  // [RMS-3]
}

}  // namespace foldgrad::rms_norm_math
