// Dropout of an activation of x plus a bias, one pass over memory instead of two.
//
//   [ACT-9]  y_rc  = keep_rc activation(x_rc + b_c) / (1 - q)
//            dx_rc = keep_rc dy_rc / (1 - q) activation'(x_rc + b_c)            db_c = sum_r dx_rc
//
//   activation as in ops/activation/activation.h, keep and q as in ops/dropout/dropout.h; the same bits as theirs.
//   x, y: [..., C] seen as [R, C]; b: [C]. Saved: x, b; backward makes the mask again.
#pragma once
#include "engine/philox.h"
#include "ops/activation/activation.h"

namespace foldgrad {

// With p = 0 it is bias_activation. Throws std::invalid_argument unless bias is [C], of x's dtype and device, and
// 0 <= p < 1.
Var bias_activation_dropout(const Var& x, const Var& bias, Activation activation, double p, const Random& random);

}  // namespace foldgrad
