// Divides each row of a matrix by a number. Linear attention divides its rows by the sums of their weights.
//
//   [DIV-1]  y_rc = n_rc / (d_r + eps)
//
//   backward:
//   [DIV-2]  dn_rc = dy_rc / (d_r + eps)
//   [DIV-3]  dd_r  = -(sum_c dy_rc y_rc) / (d_r + eps)
//
//   n, y: [..., C] seen as [R, C]; d: [...] seen as [R]. Saved: y, d. Derivation: docs/derivations/divide_rows.md.
//   In PyTorch: n / (d + eps).unsqueeze(-1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless d has all axes of n except the last, d has n's dtype and device, and eps >= 0.
Var divide_rows(const Var& n, const Var& d, double eps);

}  // namespace foldgrad
