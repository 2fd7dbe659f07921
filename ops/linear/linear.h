// The linear layer.
//
//   [LIN-1]  y = x W^T + b
//
//   backward:
//   [LIN-2]  dx = dy W        [LIN-3]  dW = dy^T x        [LIN-4]  db_j = sum_r dy_rj
//
//   x: [..., in] seen as [R, in]; W: [out, in]; b: [out]; y: [..., out]. Saved: x, W. Several layers of the same x are
//   one whose W and b have the rows of all.
//   Derivation: docs/derivations/linear.md. In PyTorch: torch.nn.functional.linear.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless weight is [out, in] with the last axis of x as `in`, bias is [out], and both are
// of x's dtype and device.
Var linear(const Var& x, const Var& weight);
Var linear(const Var& x, const Var& weight, const Var& bias);

// Returns the results of layers, [..., sum of `out`], by one product. Weights and biases that lie together
// (ops/linear/stacked.h) are read where they are, others are copied. Throws std::invalid_argument as linear() does, and
// unless there are weights, and as many biases or none.
Var linear_side_by_side(const Var& x, const std::vector<Var>& weights, const std::vector<Var>& biases);

// Returns true where that takes less time than a product for each layer: on a GPU, which a layer's gradient alone does
// not fill (docs/cuda.md). On the CPU rows of dy as long as this cost oneDNN up to a third more.
bool side_by_side_pays(Device device);

}  // namespace foldgrad
