// Group normalisation (Wu, He: "Group Normalization", 2018) over stated axes, with masks; instance normalisation
// (Ulyanov et al., 2016) is the case of one channel per group.
//
//   x is seen as [S, N, C], S samples of N positions; channel c belongs to group c / (C/G). Per sample and group, over
//   its channels at the n_s real positions of the sample, a set of m_s = n_s C/G elements:
//   [GN-1]  mu_sg   = mean x                        sigma2_sg = mean (x - mu_sg)^2
//   [GN-2]  rstd_sg = 1 / sqrt(sigma2_sg + eps)     xhat = (x - mu_sg) rstd_sg, at all positions
//   [GN-3]  y = gamma_c xhat + beta_c
//
//   backward, with h = dy gamma_c, sums over all positions, and [real] 1 at real positions, else 0:
//   [GN-4]  dx = rstd_sg (h - [real] (sum h + xhat sum (h xhat)) / m_s)
//   [GN-5]  dgamma_c = sum dy xhat                  dbeta_c = sum dy
//
//   A sample without a real position has xhat = 0: y = beta, dx = 0.
//   x, y: [B, ..., C]; gamma, beta: [C]; mask: u8 [B, ...], 1 = real. Saved: x, gamma, mask, mu and rstd [S, G],
//   1/m [S]. Derivation: docs/derivations/group_norm.md.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

// sample: S = B, as torch.nn.functional.group_norm, whose channels come second; with one group all of a sample is one
// set, as layer normalisation in convolutional networks.
// token: each position is a sample, N = 1; with one group that is layer_norm.
enum class GroupAxes : std::uint8_t { sample, token };

// Throws std::invalid_argument unless groups divides C, gamma and beta are [C] of x's dtype and device, the mask is u8
// with x's leading axes, and eps is positive.
Var group_norm(const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, GroupAxes axes,
               const Tensor* mask = nullptr, double eps = 1e-5);

}  // namespace foldgrad
