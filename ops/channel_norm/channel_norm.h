// Unified Normalization (UN) and its relatives: normalizers with one set of statistics per channel. Several keep
// windows and running averages of the statistics of earlier iterations. At inference, each normalizer is one affine map
// per channel, which can be folded into a linear layer.
//
// x is seen as [P, C], P positions of C channels. S is the first n positions, which enter the statistics; the other
// positions are padding. A sum without S is over all P positions. All formulas are per channel. AM and GM are the
// arithmetic and geometric means, and V is the variance. In training iteration t, UN computes, with h = gamma dy:
//
//   forward
//   [CN-1]   q_t = (1/n) sum_S x_i^2
//   [CN-5]   A_t = (q_t, q_{t-1}, ..., q_{t-M+1})                       the window
//   [UN-19]  skip if AM(A_t) - GM(A_t) > M V(sqrt(A_{t-1}))             q_t is an outlier; only with `filtration`
//   [UN-16]  var_hat = GM(A_t) = (q_t q_{t-1} ... q_{t-M+1})^(1/M);     if skipped, var_hat = q_t
//   [UN-1]   y_i = gamma z_i + beta,   z_i = x_i rstd,   rstd = 1 / sqrt(var_hat + eps)
//   [CN-6]   run_var = alpha run_var + (1 - alpha) var_hat
//   backward
//   [CN-3]   dgamma = sum dy_i z_i,   dbeta = sum dy_i
//            G_t = (1/n) sum h_i z_i                                    the gradient statistic
//   [UN-17]  psi = psi_ema = alpha psi_ema + (1 - alpha) (1/M) (G_t + G_{t-1} + ... + G_{t-M+1});
//            if skipped, psi = G_t
//   [CN-2]   dx_i = (h_i - [i in S] z_i psi) rstd
//   inference
//   [CN-4]   y_i = A x_i + B,   A = gamma / sqrt(run_var + eps),   B = beta
//
// After a skip, the windows record the old run_var and psi_ema instead of q_t and G_t. By default, the whole layer
// skips if the test fires for one channel, and the threshold uses the windows of all channels (see Granularity). The
// threshold is then the variance over all channels, so it depends on how much the levels of channels differ. If the
// levels are equal, M <= 4 and q varies by 5 %, UN skips every iteration forever and never averages
// (docs/normalizers.md). The threshold uses the window before q_t, because a test per channel with the same window on
// both sides would never fire. For any window w:
//   [UN-18]  AM(w) - GM(w) <= M V(sqrt(w))
// Until iteration `warmup`, while the window is not full (t <= M), and if M = 1, var_hat = q_t and psi = G_t; then dx
// is the exact gradient. Later, psi is an estimate by design. dgamma and dbeta are always exact. Several forward passes
// with one state may precede their backward passes: each backward pass uses the decisions of its own forward pass and
// writes the window slot of that iteration. Exponential averages advance in the order of the backward passes.
//
// The relatives differ from UN as follows. A line with a tag continues the entry above it:
//
//   qmbn:    var_hat = q_t,   psi = G_t
//   mabn:    psi = AM of the last M G; run_var averages q_t
//   [UN-14]  var_hat = alpha run_var + (1 - alpha) q_t
//   pn_star: var_hat and run_var as in mabn,   psi = psi_ema = alpha psi_ema + (1 - alpha) G_t
//   bn:      q_t = (1/n) sum_S (x_i - m)^2 with m = (1/n) sum_S x_i,   z_i = (x_i - m) rstd;   otherwise as qmbn
//   [BN-1]   run_var averages q_t n/(n-1), run_mean m, and B = beta - A run_mean
//   [BN-2]   dx_i = (h_i - [i in S] (psi_mu + z_i psi)) rstd,   psi_mu = (1/n) sum h_i
//   rbn:     as bn, but run_var averages q_t itself; ops/rbn_penalty/ is the term that it adds to the loss
//   [RBN-1]  rstd = 1 / sqrt(max(var_hat, eps)); psi = 0 if eps is the larger
//
// A channel is held if S is empty (for a variance, if S has fewer than two positions) or, with hold_non_finite, if the
// channel's statistic is not finite. The running estimates then normalize a held channel, psi is psi_ema, and the
// channel's state does not change. (Its window entry also keeps the old value, which is 0 in the first M iterations.)
// With finite_state, only finite values are stored as state.
//
// Released forms compute what the authors' code computes:
//   un_released    psi_ema is used during warm-up, too; all channels share one pooled threshold; r multiplies h, and
//                  dgamma, which is then not exact; G is a mean over all positions, and padding rows are corrected as
//                  well; if M = 1, r = 1 and win_g records psi_ema, as after a skip
//   mabn_released  windows use arithmetic means, forward and backward; r multiplies gamma, forward and backward. The
//                  authors' code has no padding; here q, G and the correction exclude padding
//   [MABN-1]       r = clamp(sqrt(var_hat + eps) / sqrt(run_var + eps), 1/5, 5), a constant; 1 up to
//                  iteration max(1000, warmup)
//   The released PowerNorm is a different method: ops/power_norm/power_norm.h.
//
// Saved: x, gamma, and mean, rstd, r and flags of each channel, but never a window. Statistics, decisions and state are
// on x's device, so a training step never waits for the host. Algorithm 2 is in channel_norm_forward.h and _backward.h.
// Derivations: docs/derivations/channel_norm.md. Sources: Yang et al., "Unified Normalization for Accelerating and
// Stabilizing Transformers" (2022), whose equation numbers are in the UN tags, and the papers of the relatives.
#pragma once
#include "engine/named_tensors.h"
#include "engine/tape.h"
#include "ops/channel_norm/channel_norm_options.h"
#include "ops/channel_norm/channel_record.h"
#include "ops/channel_sums/channel_sums.h"

namespace foldgrad {

struct AffineMap;  // engine/graph/channel_map.h

// The state of one layer. Copies share the buffers. Buffers that a method does not need are undefined.
struct ChannelNormState {
  Tensor run_mean, run_var, psi_ema;  // [C]; initially 0, 1, 0
  Tensor win_sq, win_g;               // [M_f, C], [M_b, C]; initially 0
  Tensor iters;                       // i64 []: number of training forward passes so far
  Tensor skips;                       // i64 []: number of training forward passes with a skipped or held channel
  Tensor skips_in_a_row;              // i64 [C]: number of consecutive skips so far; only used with hold_on_skip

  // Returns the initial state. dtype must be f32, or f64 for f64 activations.
  static ChannelNormState create(const ChannelNormOptions& options, std::int64_t channels, DType dtype,
                                 Device device = Device::cpu);
  NamedTensors named() const;  // returns the defined buffers by their names above
};

// Normalizes x. In training, BOTH PASSES WRITE `state`: the forward pass writes the running estimates, win_sq and the
// counters, and the backward pass writes psi_ema and win_g. Otherwise the running estimates are constants, nothing is
// written, and gradients are exact.
//
// x: [..., C]; gamma, beta: [C].
// If `record` is given, a training pass and its backward pass write their results to it, which changes no other result.
// Throws std::invalid_argument for operands or state that don't fit x or the options, and for options out of range.
Var channel_norm(const Var& x, const Var& gamma, const Var& beta, const ChannelNormState& state,
                 const ChannelNormOptions& options, const ChannelPass& pass,
                 std::shared_ptr<ChannelRecord> record = nullptr);

// Returns the affine map that channel_norm computes at inference. [CN-4]
AffineMap channel_affine(const ChannelNormState& state, const Tensor& gamma, const Tensor& beta,
                         const ChannelNormOptions& options);

}  // namespace foldgrad
