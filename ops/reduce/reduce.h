// Sums and means.
//
//   [RED-1]  sum(x)       y    = sum_i x_i                             dx_i   = dy
//   [RED-2]  mean(x)      y    = (1/n) sum_i x_i over n elements       dx_i   = dy / n
//   [RED-3]  mean_pool    y_bc = (1/k_b) sum_t mask_bt x_btc, where k_b = sum_t mask_bt; 0 where k_b = 0
//   [RED-4]  backward of mean_pool                                     dx_btc = mask_bt dy_bc / k_b
//
//   sum, mean: any shape to a scalar, f64 for f64 and otherwise f32. mean_pool: x [B, T, C], mask u8 [B, T], y [B, C];
//   what x holds where mask is 0 does not matter, be it NaN. The order of the sums is fixed. Saved: the mask and
//   1 / k_b [B]. In PyTorch: x.sum(), x.mean(), x.mean(1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

Var sum(const Var& x);
// Throws std::invalid_argument when x has no elements.
Var mean(const Var& x);
// The mean over axis 1, of all steps or of those that the mask lets through. Throws std::invalid_argument unless x and
// mask are as above.
Var mean_pool(const Var& x);
Var mean_pool(const Var& x, const Var& mask);

}  // namespace foldgrad
