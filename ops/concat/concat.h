// Joins tensors along an axis and cuts slices. Tensors are viewed as [R, n, inner], where n is the size of the axis.
//
//   [CAT-1]  y_(r, n_0 + ... + n_(k-1) + i) = x^k_(r, i)        i = 0 ... n_k - 1, for the operands k = 0, 1, ...
//   [CUT-1]  y_(r, i) = x_(r, begin + i)                        i = 0 ... end - begin - 1
//
//   backward:
//   [CAT-2]  dx^k_(r, i) = dy_(r, n_0 + ... + n_(k-1) + i)
//   [CUT-2]  dx_(r, begin + i) = dy_(r, i), zero elsewhere
//
//   Saved: nothing. If R = 1, a slice is a view of x's memory. In PyTorch: torch.cat, torch.narrow.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless there is at least one operand and all operands have the same dtype, device, and
// sizes of the other axes.
Var concat(const std::vector<Var>& xs, int axis);

// Throws std::invalid_argument unless 0 <= begin <= end <= the size of the axis.
Var slice(const Var& x, int axis, std::int64_t begin, std::int64_t end);

}  // namespace foldgrad
