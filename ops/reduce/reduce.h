// Sums and means.
//
//   [RED-1]  sum(x)       y    = sum_i x_i                             dx_i   = dy
//   [RED-2]  mean(x)      y    = (1/n) sum_i x_i over n elements       dx_i   = dy / n
//   [RED-3]  mean_pool    y_bc = (1/T) sum_t x_btc, 0 without any t    dx_btc = dy_bc / T  [RED-4]
//
//   sum, mean: any shape to a scalar, f64 for f64 and otherwise f32. mean_pool: x [B, T, C], y [B, C]. The order of the
//   sums is fixed. Saved: nothing. In PyTorch: x.sum(), x.mean(), x.mean(1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

Var sum(const Var& x);
// Throws std::invalid_argument when x has no elements.
Var mean(const Var& x);
// The mean over axis 1. Throws std::invalid_argument unless x is as above.
Var mean_pool(const Var& x);

}  // namespace foldgrad
