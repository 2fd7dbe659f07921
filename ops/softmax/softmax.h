// Softmax over the last axis, where wanted of the attended entries only.
//
//   [SM-1]  m_r   = max_c x_rc              over the c with mask_rc = 1, here and below; without a mask over all c
//   [SM-2]  y_rc  = exp(x_rc - m_r) / sum_j exp(x_rj - m_r)      and 0 where mask_rc = 0
//
//   backward:
//   [SM-3]  dx_rc = y_rc (dy_rc - sum_j dy_rj y_rj)
//
//   x, y: [..., C] seen as [R, C]. mask: u8, its last axis is C and its other axes are the first axes of x, as many as
//   it has: [C], [B, C] and [B, H, T, C] all go with x [B, H, T, C], and [B, C] says for each B what may be attended.
//   What x holds where mask is 0 does not matter, be it NaN. A row in which nothing is attended, be it that all
//   attended entries are -inf, gives zeros and gets a zero gradient. Saved: y.
//   Derivation: docs/derivations/softmax.md. In PyTorch: torch.softmax(x.masked_fill(mask == 0, -inf), -1), but there
//   such rows are NaN.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless the mask is as above and on x's device.
Var softmax(const Var& x);
Var softmax(const Var& x, const Var& mask);

}  // namespace foldgrad
