// Unified Normalization (UN) and its relatives: normalizers with one set of statistics per channel over positions, of
// which several keep windows and running averages of the statistics of earlier iterations. At inference each is one
// affine map per channel and can be folded into a linear layer.
//
// x is seen as [P, C], P positions of C channels; S are the n that count, the first. All is per channel. AM, GM:
// arithmetic and geometric mean, V: variance. UN, training iteration t, with h = gamma dy:
//
//   forward
//   [CN-1]   q_t = (1/n) sum_S x_i^2
//   [CN-5]   A_t = (q_t, q_{t-1}, ..., q_{t-M+1})                       the window
//   [UN-19]  skip where AM(A_t) - GM(A_t) > M V(sqrt(A_{t-1}))          q_t is an outlier; with `filtration` only
//   [UN-16]  var_hat = GM(A_t) = (q_t q_{t-1} ... q_{t-M+1})^(1/M);     where skip, var_hat = q_t
//   [UN-1]   y_i = gamma z_i + beta,   z_i = x_i rstd,   rstd = 1 / sqrt(var_hat + eps)
//   [CN-6]   run_var = alpha run_var + (1 - alpha) var_hat
//   backward
//   [CN-3]   dgamma = sum dy_i z_i,   dbeta = sum dy_i
//            G_t = (1/n) sum h_i z_i                                    the gradient statistic
//   [UN-17]  psi = psi_ema = alpha psi_ema + (1 - alpha) (1/M) (G_t + G_{t-1} + ... + G_{t-M+1});
//            where skip, psi = G_t
//   [CN-2]   dx_i = (h_i - [i in S] z_i psi) rstd
//   inference
//   [CN-4]   y_i = A x_i + B,   A = gamma / sqrt(run_var + eps),   B = beta
//
// Where an iteration is skipped, the windows record the old run_var and psi_ema in place of q_t and G_t. A layer skips
// as a whole, when the test holds in any channel, with a threshold from all of them; see Granularity. That threshold is
// the variance over all channels, so the spread of their levels decides which noise is an outlier: with equal levels, 5
// % of noise and M <= 4 every iteration is skipped, for ever, and nothing is averaged (docs/normalizers.md). The test
// compares with the window before q_t, since for one and the same window it never holds:
//   [UN-18]  AM(A) - GM(A) <= M V(sqrt(A))
// Until iteration `warmup`, until the window is full (t <= M), and where M = 1, var_hat = q_t and psi = G_t: dx is then
// the exact gradient. Afterwards psi is an estimate by design. dgamma and dbeta are always exact. Several iterations of
// one state may wait for their backward: each backward writes into the slot of its own forward, with the decisions of
// that forward; exponential averages advance in the order of the backward passes.
//
// The relatives, in what differs:
//
//   qmbn:    var_hat = q_t,   psi = G_t
//   mabn:    psi = AM of the last M G, and run_var averages q_t
//   [UN-14]  var_hat = alpha run_var + (1 - alpha) q_t
//   pn_star: var_hat and run_var as in mabn,   psi = psi_ema = alpha psi_ema + (1 - alpha) G_t
//   bn:      q_t = (1/n) sum_S (x_i - m)^2 with m = (1/n) sum_S x_i,   z_i = (x_i - m) rstd;   else as qmbn
//   [BN-1]   run_var averages q_t n/(n-1), run_mean m, and B = beta - A run_mean
//   [BN-2]   dx_i = (h_i - [i in S] (psi_mu + z_i psi)) rstd,   psi_mu = (1/n) sum h_i
//   rbn:     bn, but run_var averages q_t itself; the term that it adds to the loss is ops/rbn_penalty/
//   [RBN-1]  rstd = 1 / sqrt(max(var_hat, eps)); where that is constant, psi = 0
//
// Held channels: one without a real position (a variance: with fewer than two), or with hold_non_finite one whose
// statistic is not finite, is normalized with its running estimates and writes no state. (Its entry of the window stays
// what it was, 0 in the first M iterations.) With finite_state no state
// takes a value that is not finite.
//
// Released forms, as the authors' code computes:
//   un_released    psi_ema is used in warm-up too; one threshold pooled over all channels; the factor r multiplies h;
//                  n is the count of all positions in G, and all are corrected, those that do not count too; where M =
//                  1, r = 1 and win_g records psi_ema, as at a skip
//   mabn_released  arithmetic means of the window both ways; r multiplies gamma, forward and backward. That code has
//                  no padding; here positions that do not count are left out of q, of G and of the correction
//   [MABN-1]       r = clamp(sqrt(var_hat + eps) / sqrt(run_var + eps), 1/5, 5), a constant; 1 up to
//                  iteration max(1000, warmup)
//   The released PowerNorm is another method: ops/power_norm/power_norm.h.
//
// Saved: x, gamma; per channel mean, rstd, r, flags; never a window. Statistics, decisions and their state are on
// x's device: no training step waits for the host. Algorithm 2 is in channel_norm_forward.h and
// channel_norm_backward.h. Sources: Yang et al., "Unified Normalization for Accelerating and Stabilizing Transformers"
// (2022), whose numbers the UN tags are; the papers of the others. Derivations: docs/derivations/channel_norm.md.
#pragma once
#include "engine/graph/channel_map.h"
#include "engine/named_tensors.h"
#include "engine/tape.h"
#include "ops/channel_norm/channel_norm_options.h"
#include "ops/channel_norm/channel_record.h"

namespace foldgrad {

// The state of one layer. Copies share the buffers. Buffers that the method lacks are undefined.
struct ChannelNormState {
  Tensor run_mean, run_var, psi_ema;  // [C]; initially 0, 1, 0
  Tensor win_sq, win_g;               // [M_f, C], [M_b, C]; initially 0
  Tensor iters;                       // i64 []: training forwards so far
  Tensor skips;                       // i64 []: those of them in which at least one channel was skipped or held
  Tensor skips_in_a_row;              // i64 [C]: the last ones, with hold_on_skip

  // Returns the initial state; dtype f32, or f64 for f64 activations.
  static ChannelNormState create(const ChannelNormOptions& options, std::int64_t channels, DType dtype,
                                 Device device = Device::cpu);
  NamedTensors named() const;  // the defined ones, by the names above
};

// Normalizes x. FORWARD AND BACKWARD WRITE `state` when training: forward the running estimates, win_sq and the
// counters, backward psi_ema and win_g. Forwards without a backward leave psi_ema and win_g alone. When not training,
// the running estimates are used as constants, nothing is written, and gradients are exact.
//
// x: [..., C]; gamma, beta: [C]; counted: n, by default all positions.
// With a communicator, which must outlive the recording, a training pass takes its statistics, forward and backward,
// over the positions of all ranks. Their states stay equal, and the sum of their dgamma and dbeta is that of all.
// A `record` receives results of a training pass and its backward pass, whose bits do not depend on it.
// Throws std::invalid_argument for operands or state that don't fit x or the options, and for options out of range.
Var channel_norm(const Var& x, const Var& gamma, const Var& beta, const ChannelNormState& state,
                 const ChannelNormOptions& options, bool training, std::optional<std::int64_t> counted = {},
                 std::shared_ptr<ChannelRecord> record = nullptr, Communicator* communicator = nullptr);

// Returns the inference form.  [CN-4]
AffineMap channel_affine(const ChannelNormState& state, const Tensor& gamma, const Tensor& beta,
                         const ChannelNormOptions& options);

}  // namespace foldgrad
