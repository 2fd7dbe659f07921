// CenterNorm: layer normalisation without the division by the standard deviation. It is linear and needs no statistics
// at inference (Qi et al., "LipsFormer", 2023).
//
//   [CEN-1]  mu_r  = (1/C) sum_c x_rc            z_rc = k (x_rc - mu_r),   k = C / (C - 1)
//   [CEN-2]  y_rc  = gamma_c z_rc + beta_c
//
//   backward, with h_rc = dy_rc gamma_c and <.>_r the mean over c; subtracting the mean is a symmetric map:
//   [CEN-3]  dx_rc = k (h_rc - <h>_r)
//   [CEN-4]  dgamma_c = sum_r dy_rc z_rc         dbeta_c = sum_r dy_rc
//
//   x, y: [..., C] seen as [R, C]; gamma, beta: [C]. Saved: x, gamma, mu [R].
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless C >= 2, and gamma and beta are [C] with x's dtype and device.
Var center_norm(const Var& x, const Var& gamma, const Var& beta);

}  // namespace foldgrad
