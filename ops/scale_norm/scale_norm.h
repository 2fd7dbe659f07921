// Divides each row by its length, for ScaleNorm and for FixNorm's embedding table (Nguyen, Salazar: "Transformers
// without Tears", 2019).
//
//   [SN-1]  scale_norm:  y_rc = g u_rc            u_rc = x_rc rnorm_r,   rnorm_r = 1 / max(|x_r|, eps)
//   [FN-1]  unit_rows:   y_rc = u_rc
//
//   backward, with g = 1 for unit_rows; dy_r . u_r is the dot product of two rows:
//   [SN-2]  dx_rc = g rnorm_r (dy_rc - u_rc (dy_r . u_r))  where |x_r| > eps, else g dy_rc / eps
//   [SN-3]  dg = sum_r dy_r . u_r
//
//   x, y: [..., C] seen as [R, C]; g: [1]. Saved: x, g, rnorm [R]. Derivation: docs/derivations/scale_norm.md.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// Throws std::invalid_argument unless g is [1] with x's dtype and device, and eps is positive.
Var scale_norm(const Var& x, const Var& g, double eps = 1e-5);
// Throws std::invalid_argument unless eps is positive.
Var unit_rows(const Var& x, double eps = 1e-12);

}  // namespace foldgrad
