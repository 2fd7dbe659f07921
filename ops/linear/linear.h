// The linear layer.
//
//   [LIN-1]  y = x W^T + b
//
//   backward:
//   [LIN-2]  dx = dy W        [LIN-3]  dW = dy^T x        [LIN-4]  db_j = sum_r dy_rj
//
//   x: [..., in] seen as [R, in]; W: [out, in]; b: [out]; y: [..., out]. Saved: x, W.
//   Derivation: docs/derivations/linear.md. In PyTorch: torch.nn.functional.linear.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless x is [..., in], weight [out, in] and bias [out], with x's dtype and device.
Var linear(const Var& x, const Var& weight);
Var linear(const Var& x, const Var& weight, const Var& bias);

}  // namespace foldgrad
