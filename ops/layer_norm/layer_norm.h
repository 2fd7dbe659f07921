// Layer normalisation over the last axis (Ba, Kiros, Hinton: "Layer Normalization", 2016).
//
//   [LN-1]  mu_r    = (1/C) sum_c x_rc            sigma2_r = (1/C) sum_c (x_rc - mu_r)^2
//   [LN-2]  rstd_r  = 1 / sqrt(sigma2_r + eps)    xhat_rc  = (x_rc - mu_r) rstd_r
//   [LN-3]  y_rc    = gamma_c xhat_rc + beta_c
//
//   backward, with h_rc = dy_rc gamma_c and <.>_r the mean over c:
//   [LN-4]  dx_rc    = rstd_r (h_rc - <h>_r - xhat_rc <h xhat>_r)
//   [LN-5]  dgamma_c = sum_r dy_rc xhat_rc        dbeta_c  = sum_r dy_rc
//
//   x, y: [..., C] seen as [R, C]; gamma, beta: [C]. Saved: x, gamma, mu [R], rstd [R].
//   Derivation: docs/derivations/layer_norm.md. In PyTorch: torch.nn.functional.layer_norm.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless x is f32, f64 or bf16 with at least one axis, gamma and beta are [C] with x's
// dtype and device, and eps is positive.
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double eps = 1e-5);

}  // namespace foldgrad
