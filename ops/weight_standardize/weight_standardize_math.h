// The formulas of weight_standardize.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/host_device.h"

namespace foldgrad::weight_standardize_math {

template <class T>
FOLDGRAD_HD T squared_deviation(T W, T mu) {
  return (W - mu) * (W - mu);  // [WS-1]
}
template <class T>
struct Scale {
  T rs, c;  // 1 / s_o, c_o
};
template <class T>
FOLDGRAD_HD Scale<T> scale(T S, T c, T minimum) {
  const bool clamped = c * S <= minimum;
  return {T(1) / std::sqrt(clamped ? minimum : c * S), clamped ? T(0) : c};  // [WS-2]
}
template <class T>
FOLDGRAD_HD T w(T W, T mu, T rs) {
  return (W - mu) * rs;  // [WS-2]
}
template <class T>
FOLDGRAD_HD T what(T w, T g) {
  return g * w;  // [WS-3]
}
template <class T>
FOLDGRAD_HD T dW(T k, T w, T mean_k, T sum_k_w, const Scale<T>& s) {
  return s.rs * (k - mean_k - s.c * w * sum_k_w);  // [WS-4]
}

}  // namespace foldgrad::weight_standardize_math
