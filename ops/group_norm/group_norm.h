// Group normalisation (Wu, He: "Group Normalization", 2018), over all rows of a sample or over each row separately.
// Instance normalisation (Ulyanov et al., 2016) has one channel per group.
//
//   x is seen as [N, C]. Sample s has n_s of the rows, and channel c belongs to group c / (C/G). The m_s = n_s C/G
//   elements of a sample and a group (the group's channels in all rows of the sample) are normalized together:
//   [GN-1]  mu_sg   = mean x                        sigma2_sg = mean (x - mu_sg)^2
//   [GN-2]  rstd_sg = 1 / sqrt(sigma2_sg + eps)     xhat = (x - mu_sg) rstd_sg
//   [GN-3]  y = gamma_c xhat + beta_c
//
//   backward, with h = dy gamma_c and sums over the same elements:
//   [GN-4]  dx = rstd_sg (h - (sum h + xhat sum (h xhat)) / m_s)
//   [GN-5]  dgamma_c = sum dy xhat                  dbeta_c = sum dy        over all rows
//
//   x, y: [..., C]; gamma, beta: [C]. Saved: x, gamma, mu and rstd [S, G]. Derivation: docs/derivations/group_norm.md.
#pragma once
#include "engine/tape.h"
#include "ops/segments/segments.h"

namespace foldgrad {

// If `samples` is given, all rows of a sample are normalized together, as in torch.nn.functional.group_norm (where
// channels are axis 1). With one group, this is the layer normalisation of convolutional networks. If `samples` is
// null, each row is a sample; with one group, this is layer_norm.
// Throws std::invalid_argument unless `groups` divides C, gamma and beta are [C] with x's dtype and device, `samples`
// has as many rows as x and is on x's device, and eps is positive.
Var group_norm(const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, const Segments* samples = nullptr,
               double eps = 1e-5);

}  // namespace foldgrad
