// Matrix products, one or a batch of them.
//
//   [MM-1]  c = op(a) op(b)                              op transposes the last two axes, or not
//
//   backward:
//   [MM-2]  d op(a) = dc op(b)^T      [MM-3]  d op(b) = op(a)^T dc
//
//   op(a): [..., m, k], op(b): [..., k, n], c: [..., m, n], with equal leading axes. Or b is a single matrix for all
//   of a, which then must not be transposed: the leading axes of a are further rows. Saved: a, b.
//   Derivation: docs/derivations/linear.md. In PyTorch: torch.matmul, without broadcasting beyond this.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless the shapes are as above and b is of a's dtype and device.
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace foldgrad
