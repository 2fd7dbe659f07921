// Reverses one axis.
//
//   [FLIP-1]  y_rks  = x_r(n-1-k)s     x seen as [R, n, S]; n is the size of the axis
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

// A negative axis counts from the end. Throws std::invalid_argument if x has no such axis.
Var flip(const Var& x, int axis);

}  // namespace foldgrad
