// The formulas of softmax.h, one element at a time: the CPU loops and the CUDA kernels both call these.
#pragma once
#include <cmath>

#include "engine/cpu/vector_math.h"

namespace foldgrad::softmax_math {

// An entry whose exponential is 0. HUGE_VAL instead of numeric_limits, whose
// functions device code may not call.
template <class T>
FOLDGRAD_HD constexpr T nothing() {
  return T(-HUGE_VAL);
}

// The maximum to subtract: of a row of such entries a finite one, so that the difference is not NaN.
template <class T>
FOLDGRAD_HD T shift(T max) {
  return max == nothing<T>() ? T(0) : max;  // [SM-1]
}
template <class T>
FOLDGRAD_HD T exponential(T x, T m) {
  return fast_exp_nonpositive(x - m);
}
// 0 for a row of such entries; NaN stays.
template <class T>
FOLDGRAD_HD T scale(T sum) {
  return sum == T(0) ? T(0) : T(1) / sum;
}
template <class T>
FOLDGRAD_HD T y(T exponential, T scale) {
  return exponential * scale;  // [SM-2]
}
template <class T>
FOLDGRAD_HD T dx(T y, T dy, T sum_dy_y) {
  return y * (dy - sum_dy_y);  // [SM-3]
}

}  // namespace foldgrad::softmax_math
