// Functions that replace normalizers: Dynamic Tanh (Zhu et al., "Transformers without Normalization", 2025) and Derf
// (Chen et al., "Stronger Normalization-Free Transformers", 2025).
//
//   [DYT-1]   dyt:   y_rc = gamma_c t_rc + beta_c,   t = tanh(u),  u = a x         t' = 1 - t^2
//   [DERF-1]  derf:  y_rc = gamma_c t_rc + beta_c,   t = erf(u),   u = a x + s     t' = (2/sqrt(pi)) e^(-u^2)
//
//   backward of both, with h_rc = dy_rc gamma_c:
//   [DYT-2]   dx_rc = h_rc a t'_rc
//   [DYT-3]   dgamma_c = sum_r dy_rc t_rc     dbeta_c = sum_r dy_rc
//   [DYT-4]   da = sum_rc h_rc x_rc t'_rc     [DERF-2]  ds = sum_rc h_rc t'_rc
//
//   x, y: [..., C] seen as [R, C]; gamma, beta: [C]; a, s: [1]. Saved: x, gamma, a, s; t is recomputed.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Both throw std::invalid_argument unless gamma and beta are [C], and alpha and shift [1], with x's dtype and device.
Var dyt(const Var& x, const Var& alpha, const Var& gamma, const Var& beta);
Var derf(const Var& x, const Var& alpha, const Var& shift, const Var& gamma, const Var& beta);

}  // namespace foldgrad
