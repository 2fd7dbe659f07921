// Weighted sums over axis 1, such as sequence pooling with weights from a softmax (Hassani et al.: "Escaping the Big
// Data Paradigm with Compact Transformers", 2021), and means over axis 1.
//
//   [WP-1]   weighted_pool: y_bc = sum_t w_bt x_btc
//   [RED-3]  mean_pool:     y_bc = (1/T) sum_t x_btc, 0 if T = 0
//
//   backward:
//   [WP-2]   dx_btc = w_bt dy_bc
//   [WP-3]   dw_bt  = sum_c dy_bc x_btc
//   [RED-4]  mean_pool: dx_btc = dy_bc / T
//
//   x: [B, T, C]; w: [B, T]; y: [B, C]. The order of summation is fixed. Saved: x, w; nothing for a mean. An affine map
//   of x passes through if each row of w sums to 1. Folding has to detect this (PoolNode::describe), so we do not use a
//   matrix product. In PyTorch: torch.matmul(w.unsqueeze(1), x).squeeze(1), x.mean(1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Both throw std::invalid_argument unless x and w have the shapes above and the same dtype and device.
Var weighted_pool(const Var& x, const Var& w);
Var mean_pool(const Var& x);

}  // namespace foldgrad
