// Element-wise sums, differences and products.
//
//   [AR-1]  add:      y = a + b          da = dy           db = dy
//   [AR-2]  sub:      y = a - b          da = dy           db = -dy
//   [AR-3]  mul:      y = a b            da = dy b         db = dy a
//   [AR-4]  scale:    y = s a            da = s dy
//   [AR-5]  add_bias: y_rc = x_rc + b_c  dx = dy           db_c = sum_r dy_rc
//
//   a, b, y: the same shape. In add_bias, x and y are [..., C] seen as [R, C], and b is [C]. Saved: a and b for mul.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// These throw std::invalid_argument unless b has a's shape, dtype and device.
Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);

// For f32 and bf16, s is rounded to float.
Var scale(const Var& a, double s);

// Throws std::invalid_argument unless bias is [C] with x's dtype and device.
Var add_bias(const Var& x, const Var& bias);

}  // namespace foldgrad
