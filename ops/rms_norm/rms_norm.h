// Root mean square normalisation over the last axis (Zhang, Sennrich: "Root Mean Square Layer Normalization", 2019).
// eps is inside the root as in LLaMA, or outside as in the authors' code. If partial (pRMSNorm), the mean is over the
// first k channels.
//
//   [RMS-1]  rrms_r   = 1 / sqrt((1/k) sum_{c<k} x_rc^2 + eps)                       k = C if not partial
//   [RMS-5]  or, with eps outside, 1 / (R_r + eps)      R_r = sqrt((1/k) sum_{c<k} x_rc^2)
//   [RMS-2]  y_rc     = gamma_c xhat_rc                                              xhat_rc = x_rc rrms_r
//
//   backward, with h_rc = dy_rc gamma_c:
//   [RMS-3]  dx_rc    = rrms_r (h_rc - [c < k] xhat_rc w_r sum_c' h_rc' xhat_rc')    w_r = 1/k
//   [RMS-6]  or, with eps outside, w_r = (1 + eps / R_r) / k, and 0 if R_r = 0, since then x is 0, and so is the term
//   [RMS-4]  dgamma_c = sum_r dy_rc xhat_rc
//
//   x, y: [..., C] seen as [R, C]; gamma: [C]. Saved: x, gamma, rrms and w [R].
//   Derivation: docs/derivations/rms_norm.md. In PyTorch: torch.nn.functional.rms_norm.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

struct RmsNormOptions {
  double eps = 1e-6;
  bool eps_outside = false;
  std::int64_t channels = 0;  // k; 0 means all channels
};

// Throws std::invalid_argument unless gamma is [C] with x's dtype and device, eps is positive, and k is at most C.
Var rms_norm(const Var& x, const Var& gamma, const RmsNormOptions& options);
Var rms_norm(const Var& x, const Var& gamma, double eps = 1e-6);

}  // namespace foldgrad
