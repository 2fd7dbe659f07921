// Convolution of images, as a product of matrices, and what a vision Transformer makes of it.
//
//   [CONV-1]  u_(b, l, k) = x_(b, c, s i + v - p, s j + w - p), zero outside of the image   (unfold)
//             l = i Wo + j, k = (c Kh + v) Kw + w, Ho = floor((H + 2p - Kh) / s) + 1, Wo likewise
//   [CONV-2]  y_(b, o, l) = sum_k weight_(o, k) u_(b, l, k) + bias_o                        (conv2d)
//
//   backward of unfold:
//   [CONV-3]  dx_(b, c, h, g) = sum of du_(b, l, k) over the l and k whose u is that x
//
//   x: [B, C, H, W]; weight: [O, C, Kh, Kw]; bias: [O]; s: stride; p: padding. The rest is `linear`, `reshape` and
//   `permute`, which bring their own backward passes; patch_embedding leaves out the permute, since tokens are the rows
//   that linear gives. Where libraries may compute it, see conv2d_channels_last.h. Derivation:
//   docs/derivations/conv2d.md. In PyTorch: torch.nn.functional.unfold (transposed), torch.nn.functional.conv2d.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

struct Conv2dOptions {
  std::int64_t stride = 1, padding = 0;
};

// All throw std::invalid_argument unless the operands are as above, of x's dtype and device, stride is positive,
// padding not negative, and the kernel not larger than the padded image.

// [B, Ho Wo, C Kh Kw]
Var unfold(const Var& x, std::int64_t kernel_height, std::int64_t kernel_width, const Conv2dOptions& options = {});

// [B, O, Ho, Wo]
Var conv2d(const Var& x, const Var& weight, const Conv2dOptions& options = {});
Var conv2d(const Var& x, const Var& weight, const Var& bias, const Conv2dOptions& options = {});

// Square patches side by side: stride P for weight [O, C, P, P], whose P must divide H and W. [B, H W / P^2, O]
Var patch_embedding(const Var& x, const Var& weight, const Var& bias);

}  // namespace foldgrad
