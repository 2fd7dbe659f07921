// PowerNorm as its authors' code computes it (Shen et al., "PowerNorm: Rethinking Batch Normalization in Transformers",
// 2020). Without group_rms, which scales groups of channels beforehand, it is PN*.
//
// x is seen as [P, C], P positions of C channels. S is the first n positions, which enter the statistics. All formulas
// are per channel. In training iteration t, with h = gamma dy and q = (1/n) sum_S x_i^2:
//
//   forward
//   [PN-1]  y_i = gamma z_i + beta,   z_i = x_i / sqrt((t <= warmup ? q : phi) + eps)
//   [PN-2]  phi = phi (t-1)/t + q/t while t < warmup; then, in every iteration, phi = alpha phi + (1 - alpha) q
//   backward
//   [PN-3]  h'_i = h_i - (1 - alpha) nu_ema z_i,   dx_i = h'_i / sqrt(q + eps),   nu_ema += (1/P) sum h'_i z_i
//           dgamma = sum dy_i z_i,   dbeta = sum dy_i
//   inference: z_i = x_i / sqrt(phi + eps)
//
// dx is an estimate at every step; on a constant stream, (1 - alpha) nu_ema tends to mean(h z) / mean(z^2). dgamma and
// dbeta are exact. Only q excludes padding. If n = 0, phi replaces q, and only the counters are written. The UN paper's
// form of PN* is in ops/channel_norm/channel_norm.h.
//
// Saved: x, gamma, and for each channel 1 / sqrt(...) for z and for q, and (1/P) sum x_i^2. All state is on x's device.
//
// group_rms, the authors' "layer-scale", divides each position and group of channels by its root mean square:
//
//   [PN-4]  y_pc = x_pc / sqrt((groups/C) sum over the channels of c's group of x_p^2 + eps)
#pragma once
#include "ops/channel_norm/channel_norm.h"

namespace foldgrad {

struct PowerNormOptions {
  std::int64_t warmup = 10000;                       // number of iterations that normalize with q
  double alpha_forward = 0.9, alpha_backward = 0.9;  // weights of the old value in the averages
  double eps = 1e-5;
};

// The state of one layer. Copies share the buffers.
struct PowerNormState {
  Tensor phi, nu_ema;  // [C]; initially 1, 0
  Tensor iters;        // i64 []: number of training forward passes so far
  Tensor skips;        // i64 []: number of training forward passes with n = 0

  // Returns the initial state. dtype must be f32, or f64 for f64 activations.
  static PowerNormState create(std::int64_t channels, DType dtype, Device device = Device::cpu);
  NamedTensors named() const;  // returns the tensors by their names above
};

// Normalizes x. In training, BOTH PASSES WRITE `state`: the forward pass writes phi and the counters, and the backward
// pass writes nu_ema. Otherwise phi is a constant, nothing is written, and gradients are exact.
//
// x: [..., C]; gamma, beta: [C].
// Throws std::invalid_argument for operands or state that don't fit x, and for options out of range.
Var power_norm(const Var& x, const Var& gamma, const Var& beta, const PowerNormState& state,
               const PowerNormOptions& options, const ChannelPass& pass);

// Computes [PN-4] with reshape() and rms_norm(), so its gradient is exact. Throws std::invalid_argument unless `groups`
// divides C.
Var group_rms(const Var& x, std::int64_t groups, double eps = 1e-5);

// Returns the affine map at inference.  [CN-4]
AffineMap power_norm_affine(const PowerNormState& state, const Tensor& gamma, const Tensor& beta,
                            const PowerNormOptions& options);

}  // namespace foldgrad
