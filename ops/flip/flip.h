// Reversal of one axis.
//
//   [FLIP-1]  y_rks  = x_r(n-1-k)s     x seen as [R, n, S] around the axis of n
//
//   backward:
//   [FLIP-2]  dx_rks = dy_r(n-1-k)s
//
//   [FLIP-3]  flip(A x + B) = A' flip(x) + B': along the channels, A'_c = A_(C-1-c) and B'_c = B_(C-1-c); along another
//             axis A' = A and B' = B
//
//   x, y: any shape with at least one axis. Saved: nothing. In PyTorch: torch.flip.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Counts the axis from the end where it is negative. Throws std::invalid_argument for an axis that x does not have.
Var flip(const Var& x, int axis);

}  // namespace foldgrad
