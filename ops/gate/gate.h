// Multiplies each channel of each sample by a number (Hu et al.: "Squeeze-and-Excitation Networks", CVPR 2018).
//
//   [GATE-1]  y_btc  = w_bc x_btc
//
//   backward:
//   [GATE-2]  dx_btc = w_bc dy_btc
//   [GATE-3]  dw_bc  = sum_t dy_btc x_btc
//
//   x, y: [B, T, C]; w: [B, C]. Saved: x, w. The order of summation is fixed. In PyTorch: x * w.unsqueeze(1).
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless x and w have the shapes above and the same dtype and device.
Var gate(const Var& x, const Var& w);

}  // namespace foldgrad
