// Normalizers with one set of statistics per channel over positions, of which several keep windows and running
// averages of the statistics of earlier iterations: batch normalization, MABN, PowerNorm without its group scaling,
// Unified Normalization (UN). At inference each is one affine map per channel and can be folded into a linear layer.
//
// x is seen as [P, C], P positions of C channels; S are the n real positions, those that the mask does not exclude.
// Training forward number t of one state, per channel, with h = gamma dy:
//
//   [CN-1]   batch statistic: mean_S x and mean_S (x - mean)^2, or without a mean q = mean_S x^2
//   [UN-1]   y = gamma z + beta,   z = (x - mu_hat) rstd,   rstd = 1 / sqrt(var_hat + eps)
//   [CN-2]   dx_i = (h_i - [i in S] (psi_mu + z_i psi)) rstd
//   [CN-3]   dgamma = sum dy z,   dbeta = sum dy
//   [CN-4]   inference: y = A x + B,   A = gamma / sqrt(run_var + eps),   B = beta - A run_mean
//
// and with the gradient statistic G = sum(h z) / n, the row of the table says what var_hat and psi are made of:
//
//   name      statistic    var_hat (forward average)      psi (backward average)           run_var averages
//   bn        variance     current                        G, and psi_mu = mean h [BN-2]    v n/(n-1)  [BN-1]
//   qmbn      mean square  current                        G                                q
//   mabn      mean square  exponential        [UN-14]     mean of the last M G             q
//   pn_star   mean square  exponential        [UN-14]     exponential                      q
//   un        mean square  geometric, last M  [UN-16]     exponential, of the mean of the last M  [UN-17]   var_hat
//
// Until iteration `warmup`, until the forward window is full (t <= M), and where M = 1, var_hat is the current
// statistic and psi = G: dx is then the exact gradient. Afterwards psi is an estimate by design. dgamma and dbeta are
// always exact. Several iterations of one state may wait for their backward: each backward writes into the slot of its
// own forward, with the decisions of that forward; exponential averages advance in the order of the backward passes.
//
// Outliers (filtration): with the window A of the last M values of q, including the current one,
//   [UN-18]  AM(A) - GM(A) <= M V(sqrt(A)) for every window, so that the test
//   [UN-19]  AM(A_t) - GM(A_t) > M V(sqrt(A_{t-1})) fires only for values that the window has not seen.
// Where it fires, var_hat = q, psi = G, and the windows record run_var and psi_ema instead of q and G.
//
// A channel without a real position (a variance: with fewer than two), or with hold_non_finite one whose statistic is
// not finite, is normalised with its running estimates, writes no state and counts as skipped. (Its entry of the window
// stays what it was, 0 in the first M iterations.)
//
// Released forms, as the authors' code computes:
//   un_released    psi_ema is used in warm-up too; one threshold pooled over all channels; the factor r multiplies h;
//                  with a mask, n is still the count of all positions in G, and all are corrected; where M = 1,
//                  r = 1 and win_g records psi_ema
//   mabn_released  arithmetic means of the window both ways; r multiplies gamma, forward and backward. That code has
//                  no mask; here a mask leaves padding out of q, of G and of the correction
//   [MABN-1]       r = clamp(sqrt(var_hat + eps) / sqrt(run_var + eps), 1/5, 5), a constant; 1 up to
//                  iteration max(1000, warmup)
//   pn_star_released, with state phi and nu_ema; its means of gradients are over all positions, and all are corrected:
//   [PN-1]         z = x / sqrt((t <= warmup ? q : phi) + eps)
//   [PN-2]         phi = phi (t-1)/t + q/t while t < warmup, and then always phi = alpha phi + (1 - alpha) q
//   [PN-3]         h' = h - (1 - alpha) nu_ema z,   nu_ema += mean(h' z),   dx = h' / sqrt(q + eps)
//   rbn            BN whose variance is clamped [RBN-1]: rstd = 1 / sqrt(max(v, eps)), and run_var averages v itself;
//                  the term that it adds to the loss is in rbn_penalty.h
//
// Saved: x, gamma, mask; per channel mean, rstd, r, flags; never a window. Statistics, decisions and their state are on
// x's device: no training step waits for the host. Sources: Yang et al., "Unified Normalization for Accelerating and
// Stabilizing Transformers" (2022), whose numbers the UN tags are; the papers of the others. Derivations:
// docs/derivations/channel_norm.md.
#pragma once
#include <map>
#include <string>

#include "engine/tape.h"
#include "ops/channel_norm/channel_norm_options.h"

namespace foldgrad {

// What one layer remembers. Copies share the buffers, snapshot() does not. Buffers that the method lacks are undefined.
struct ChannelNormState {
  Tensor run_mean, run_var, psi_ema;  // [C]; initially 0, 1, 0
  Tensor win_sq, win_g;               // [M_f, C], [M_b, C]; initially 0
  Tensor phi, nu_ema;                 // [C]; initially 1, 0
  Tensor iters, skips;                // i64 []: training forwards so far; those with an outlier or a held channel

  // dtype f32, or f64 for f64 activations.
  static ChannelNormState create(const ChannelNormOptions& options, std::int64_t channels, DType dtype,
                                 Device device = Device::cpu);
  std::map<std::string, Tensor> named() const;  // the defined ones, by the names above
  ChannelNormState snapshot() const;
  void restore(const ChannelNormState& snapshot) const;  // into the same buffers
};

// FORWARD AND BACKWARD WRITE `state` when training: forward the running estimates, win_sq and the counters, backward
// psi_ema (nu_ema) and win_g. Forwards without a backward leave psi_ema and win_g alone. Not training, the running
// estimates are used as constants, nothing is written, and gradients are exact.
//
// x: [..., C]; gamma, beta: [C]; mask: u8, x's shape without the last axis, 1 = real, or null: all are.
// Throws std::invalid_argument for operands or state that don't fit x or the options, and for options out of range.
Var channel_norm(const Var& x, const Var& gamma, const Var& beta, const Tensor* mask, const ChannelNormState& state,
                 const ChannelNormOptions& options, bool training);

// The inference form, in f64 on the host.  [CN-4]
struct ChannelAffine {
  Tensor A, B;  // [C]
};
ChannelAffine channel_affine(const ChannelNormState& state, const Tensor& gamma, const Tensor& beta,
                             const ChannelNormOptions& options);

}  // namespace foldgrad
