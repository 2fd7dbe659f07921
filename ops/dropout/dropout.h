// Inverted dropout (Srivastava et al., JMLR 2014; scaled while training, so that inference needs no change).
//
//   [DO-1]  keep_i = [bits_i >= 2^16 q]        bits_i: the 16 bits of element i, counted flat, of the sequence `random`
//           q: the multiple of 2^-16 next to p and below 1; the mean of keep_i / (1 - q) is exactly 1
//   [DO-2]  y_i    = keep_i x_i / (1 - q)
//   [DO-3]  dx_i   = keep_i dy_i / (1 - q)
//
//   bias_dropout_residual, one pass over memory instead of three:
//   [DO-4]  y_rc   = residual_rc + keep_rc (x_rc + b_c) / (1 - q)
//   [DO-5]  dx_rc  = keep_rc dy_rc / (1 - q)            db_c = sum_r dx_rc            dresidual = dy
//
//   x, y: any shape; of bias_dropout_residual [..., C] seen as [R, C], like residual; b: [C].
//   Saved: nothing; backward makes the mask again.
#pragma once
#include "engine/philox.h"
#include "engine/tape.h"

namespace foldgrad {

// With p = 0 the result is x itself. Throws std::invalid_argument unless 0 <= p < 1.
Var dropout(const Var& x, double p, const Random& random);

// Throws std::invalid_argument unless 0 <= p < 1, bias is [C] and residual of x's shape, both of x's dtype and device.
Var bias_dropout_residual(const Var& x, const Var& bias, const Var& residual, double p, const Random& random);

}  // namespace foldgrad
