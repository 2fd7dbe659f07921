// Matrix products, single or batched.
//
//   [MM-1]  c = op(a) op(b)                              op transposes the last two axes or does nothing
//
//   backward:
//   [MM-2]  d op(a) = dc op(b)^T      [MM-3]  d op(b) = op(a)^T dc
//
//   op(a): [..., m, k], op(b): [..., k, n], c: [..., m, n], with equal leading axes. Or b is one matrix that multiplies
//   all of a; then the leading axes of a count as rows, and a must not be transposed. Saved: a, b.
//   Derivation: docs/derivations/linear.md. In PyTorch: torch.matmul, which also broadcasts.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless a and b have the shapes above and the same dtype and device.
Var matmul(const Var& a, const Var& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace foldgrad
