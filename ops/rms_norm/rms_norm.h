// Root mean square normalisation over the last axis (Zhang, Sennrich: "Root Mean Square Layer Normalization", 2019),
// with eps inside the root as in LLaMA.
//
//   [RMS-1]  rrms_r   = 1 / sqrt((1/C) sum_c x_rc^2 + eps)
//   [RMS-2]  y_rc     = gamma_c xhat_rc                       xhat_rc = x_rc rrms_r
//
//   backward, with g_rc = dy_rc gamma_c and <.>_r the mean over c:
//   [RMS-3]  dx_rc    = rrms_r (g_rc - xhat_rc <g xhat>_r)
//   [RMS-4]  dgamma_c = sum_r dy_rc xhat_rc
//
//   x, y: [..., C] seen as [R, C]; gamma: [C]. Saved: x, gamma, rrms [R].
//   Derivation: docs/derivations/rms_norm.md. In PyTorch: torch.nn.functional.rms_norm.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless gamma is [C], of x's dtype and device, and eps is positive.
Var rms_norm(const Var& x, const Var& gamma, double eps = 1e-6);

}  // namespace foldgrad
