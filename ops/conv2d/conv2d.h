// Convolution of channels-last images, with bias and activation, and the patch embedding of vision Transformers.
//
//   [CONV-1]  u_(b, l, k) = x_(b, s i + v - p, s j + w - p, c), zero outside of the image    (unfold)
//             l = i Wo + j, k = (c Kh + v) Kw + w, Ho = floor((H + 2p - Kh) / s) + 1, Wo likewise
//   [CONV-2]  y_(b, l, o) = sum_k weight_(o, k) u_(b, l, k) + bias_o                         (patch_embedding)
//   [CONV-4]  z_(b, i, j, o) = sum_(c, v, w) weight_(o, c, v, w) x_(b, s i + v - p, s j + w - p, c) + bias_o,
//             y = activation(z)                                                              (conv2d_channels_last)
//
//   backward of unfold:
//   [CONV-3]  dx_(b, h, g, c) = sum of du_(b, l, k) over the l and k where u_(b, l, k) is that x
//
//   backward of the convolution, with dz = dy activation'(z):
//   [CONV-5]  dx_(b, h, g, c) = sum_(o, i, j, v, w) dz_(b, i, j, o) weight_(o, c, v, w),
//             h = s i + v - p, g = s j + w - p
//   [CONV-6]  dweight_(o, c, v, w) = sum_(b, i, j) dz_(b, i, j, o) x_(b, s i + v - p, s j + w - p, c)
//   [CONV-7]  dbias_o = sum_(b, i, j) dz_(b, i, j, o)
//
//   With G groups, the channels of x and of y are divided into G equal parts, and part g of y is a convolution of part
//   g of x. In [CONV-4] to [CONV-6], output channel o then uses the input channels g C / G + c, with g = floor(o G / O)
//   and c < C / G. G = C = O is a depthwise convolution.
//
//   x: [B, H, W, C]; weight: [O, C / G, Kh, Kw], as in PyTorch's files; bias: [O]; s: stride; p: padding. A convolution
//   may also pad the end of both axes by e more pixels, so that Ho = floor((H + 2p + e - Kh) / s) + 1. TensorFlow's
//   SAME padding has e = 1 if its total padding is odd. Saved: x, weight and y; if activation' needs z, then z without
//   the bias instead of y (activation.h).
//   On the CPU, oneDNN computes f32 and bf16 convolutions; on CUDA, cuDNN computes those that it covers. All other
//   convolutions use unfold and gemm(), or plain loops if they are depthwise. On the CPU, our loops compute dweight of
//   every depthwise convolution, because oneDNN 2.6 takes 7 to 20 times as long for 7 x 7 kernels (docs/log.md).
//   Derivation: docs/derivations/conv2d.md. In PyTorch: torch.nn.functional.unfold (transposed);
//   torch.nn.functional.conv2d, channels_last, and an activation.
#pragma once
#include <optional>

#include "engine/tape.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct Conv2dOptions {
  std::int64_t stride = 1, padding = 0;
};
struct Conv2dChannelsLastOptions {
  std::int64_t stride = 1, padding = 0;
  std::optional<Activation> activation = {};
  std::int64_t groups = 1;
  std::int64_t extra_padding = 0;  // e: additional rows of padding below, and columns on the right
};

// All functions throw std::invalid_argument unless the operands have the shapes above and x's dtype and device, stride
// is positive, paddings are not negative, the kernel fits the padded image, and `groups` divides C and O.

// Returns [B, Ho Wo, C Kh Kw].
Var unfold(const Var& x, std::int64_t kernel_height, std::int64_t kernel_width, const Conv2dOptions& options = {});

// Returns [B, H W / P^2, O] for square patches that do not overlap: weight is [O, C, P, P]; P must divide H and W.
Var patch_embedding(const Var& x, const Var& weight, const Var& bias);

// These return [B, Ho, Wo, O].
Var conv2d_channels_last(const Var& x, const Var& weight, const Conv2dChannelsLastOptions& options = {});
Var conv2d_channels_last(const Var& x, const Var& weight, const Var& bias,
                         const Conv2dChannelsLastOptions& options = {});

}  // namespace foldgrad
