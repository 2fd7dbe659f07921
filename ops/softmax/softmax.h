// Softmax over the last axis.
//
//   [SM-1]  m_r   = max_c x_rc
//   [SM-2]  y_rc  = exp(x_rc - m_r) / sum_j exp(x_rj - m_r)
//
//   backward:
//   [SM-3]  dx_rc = y_rc (dy_rc - sum_j dy_rj y_rj)
//
//   x, y: [..., C] seen as [R, C]. A row in which all elements are -infinity gives zeros and a zero gradient; in
//   PyTorch, it gives NaN. Saved: y. Derivation: docs/derivations/softmax.md. In PyTorch: torch.softmax(x, -1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless x has a floating-point dtype and at least one axis.
Var softmax(const Var& x);

}  // namespace foldgrad
