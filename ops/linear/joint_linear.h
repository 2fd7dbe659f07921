// Several linear layers of one input, side by side in the columns of one result: three products (y, dx, dW) and one sum
// over rows, however many layers there are.
//
//   [LIN-5]  y = [x W_1^T + b_1, x W_2^T + b_2, ...]
//
//   With all W_k below each other in W, and all b_k behind each other in b, these are LIN-1 to LIN-4. Where operands do
//   not lie so in memory (side_by_side.h), they are copied there first, and where gradients do not, each has a product
//   of its own.
//
//   x: [..., in] seen as [R, in]; W_k: [out_k, in]; b_k: [out_k]; y: [..., sum of out_k]. Saved: x, W.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless there are as many biases as weights, at least one, of the shapes above and of x's
// dtype and device.
Var joint_linear(const Var& x, const std::vector<Var>& weights, const std::vector<Var>& biases);

}  // namespace foldgrad
