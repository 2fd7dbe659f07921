// The linear layer.
//
//   [LIN-1]  y = x W^T + b
//
//   backward:
//   [LIN-2]  dx = dy W        [LIN-3]  dW = dy^T x        [LIN-4]  db_j = sum_r dy_rj
//
//   x: [..., in] seen as [R, in]; W: [out, in]; b: [out]; y: [..., out]. Saved: x, W. Several layers of the same x are
//   computed as one layer, whose W and b have the rows of all.
//   Derivation: docs/derivations/linear.md. In PyTorch: torch.nn.functional.linear.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless weight is [out, in], where `in` is x's last axis, bias is [out], and both have
// x's dtype and device.
Var linear(const Var& x, const Var& weight);
Var linear(const Var& x, const Var& weight, const Var& bias);

// Computes several layers of x by one product and returns their results side by side, [..., sum of `out`]. Weights and
// biases that are consecutive in memory (ops/linear/stacked.h) are read in place, others are copied. Throws
// std::invalid_argument like linear(), and unless there is a weight and either no bias or one per weight.
Var linear_side_by_side(const Var& x, const std::vector<Var>& weights, const std::vector<Var>& biases);

// Returns true if that is faster than one product per layer. True on a GPU, which one layer's gradient does not fill
// (docs/cuda.md). False on the CPU, where longer rows of dy cost oneDNN up to a third more.
bool side_by_side_pays(Device device);

}  // namespace foldgrad
