// Convolution of images whose channels come last, followed by bias and activation.
//
//   [CONV-4]  z_(b, i, j, o) = sum_(c, v, w) weight_(o, c, v, w) x_(b, s i + v - p, s j + w - p, c) + bias_o,
//             x being zero outside of the image; y = activation(z)
//
//   backward, with dz = dy activation'(z):
//   [CONV-5]  dx_(b, h, g, c) = sum_(o, i, j, v, w) dz_(b, i, j, o) weight_(o, c, v, w), h = s i + v - p, g = s j + w -
//   p [CONV-6]  dweight_(o, c, v, w) = sum_(b, i, j) dz_(b, i, j, o) x_(b, s i + v - p, s j + w - p, c) [CONV-7]
//   dbias_o = sum_(b, i, j) dz_(b, i, j, o)
//
//   x: [B, H, W, C]; weight: [O, C, Kh, Kw], as PyTorch's files have it; bias: [O]; y: [B, Ho, Wo, O], with
//   Ho = floor((H + 2p - Kh) / s) + 1, Wo likewise; s: stride; p: padding. Saved: x, weight, and y, or where the
//   activation's slope needs it z less its bias (activation.h).
//   By oneDNN for f32 and bf16 on the CPU, by cuDNN for what it covers on CUDA, and otherwise by the rows of `unfold`
//   and gemm(). Derivation: docs/derivations/conv2d.md.
//   In PyTorch: torch.nn.functional.conv2d, channels_last, and what follows it.
#pragma once
#include <optional>

#include "engine/tape.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct Conv2dChannelsLastOptions {
  std::int64_t stride = 1, padding = 0;
  std::optional<Activation> activation = {};
};

// Throws std::invalid_argument unless the operands are as above, of x's dtype and device, stride is positive, padding
// not negative, and the kernel not larger than the padded image.
Var conv2d_channels_last(const Var& x, const Var& weight, const Conv2dChannelsLastOptions& options = {});
Var conv2d_channels_last(const Var& x, const Var& weight, const Var& bias,
                         const Conv2dChannelsLastOptions& options = {});

}  // namespace foldgrad
