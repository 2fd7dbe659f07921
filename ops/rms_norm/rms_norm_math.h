// The formulas of rms_norm.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/host_device.h"

namespace foldgrad::rms_norm_math {

template <class T>
FOLDGRAD_HD T rrms(T mean_square, T eps, bool eps_outside) {
  if (eps_outside) return T(1) / (std::sqrt(mean_square) + eps);  // [RMS-5]
  return T(1) / std::sqrt(mean_square + eps);                     // [RMS-1]
}
template <class T>
FOLDGRAD_HD T weight(T mean_square, T channels, T eps, bool eps_outside) {
  if (!eps_outside) return T(1) / channels;
  return mean_square == T(0) ? T(0) : (T(1) + eps / std::sqrt(mean_square)) / channels;  // [RMS-6]
}
template <class T>
FOLDGRAD_HD T xhat(T x, T rrms) {
  return x * rrms;  // [RMS-2]
}
template <class T>
FOLDGRAD_HD T y(T xhat, T gamma) {
  return gamma * xhat;  // [RMS-2]
}
// along = w sum h xhat, and 0 for channels that the mean leaves out.
template <class T>
FOLDGRAD_HD T dx(T h, T xhat, T rrms, T along) {
  return rrms * (h - xhat * along);  // [RMS-3]
}
// A row's share.
template <class T>
FOLDGRAD_HD T dgamma(T dy, T xhat) {
  return dy * xhat;  // [RMS-4]
}

}  // namespace foldgrad::rms_norm_math
