// Affine maps with few parameters.
//
//   [AFF-1]  affine:    y_rc = gamma_c x_rc + beta_c
//   [AFF-2]             dx_rc = dy_rc gamma_c    dgamma_c = sum_r dy_rc x_rc    dbeta_c = sum_r dy_rc
//   [AFF-3]  scale_by:  y = eta x, where eta is one learned number
//   [AFF-4]             dx = eta dy              deta = sum over all elements of dy x
//
//   x, y: [..., C] seen as [R, C]; gamma, beta: [C]; eta: [1]. Saved: x and gamma or eta.
//   `affine` is MobileBERT's NoNorm (Sun et al., 2020), and the form of a folded normalizer. `scale_by` is the branch
//   that RepBN (Guo et al., "SLAB", 2024) adds to batch normalization.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless gamma and beta are [C] with x's dtype and device.
Var affine(const Var& x, const Var& gamma, const Var& beta);
// Throws std::invalid_argument unless eta is [1] with x's dtype and device.
Var scale_by(const Var& x, const Var& eta);

}  // namespace foldgrad
