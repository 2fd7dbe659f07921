// Sums over axis 1 with a weight for each step, as sequence pooling has them from a softmax (Hassani et al.: "Escaping
// the Big Data Paradigm with Compact Transformers", 2021), and means over it.
//
//   [WP-1]   weighted_pool: y_bc = sum_t w_bt x_btc
//   [RED-3]  mean_pool:     y_bc = (1/T) sum_t x_btc, 0 without any t
//
//   backward:
//   [WP-2]   dx_btc = w_bt dy_bc
//   [WP-3]   dw_bt  = sum_c dy_bc x_btc
//   [RED-4]  of a mean: dx_btc = dy_bc / T
//
//   x: [B, T, C]; w: [B, T]; y: [B, C]. The order of the sums is fixed. Saved: x, w; for a mean nothing. A node of its
//   own instead of a product of matrices, because folding must know that a map of x goes through where a row of w sums
//   to 1 (PoolNode::passes). In PyTorch: torch.matmul(w.unsqueeze(1), x).squeeze(1), x.mean(1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Both throw std::invalid_argument unless x and w are as above, of one dtype and device.
Var weighted_pool(const Var& x, const Var& w);
Var mean_pool(const Var& x);

}  // namespace foldgrad
