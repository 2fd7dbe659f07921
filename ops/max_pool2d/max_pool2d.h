// Max pooling: slides a window over images (channels last) and keeps the maximum of each window and channel.
//
//   [POOL-1]  y_bijc  = max of x_(b, h, g, c) over h = s i + v - p, g = s j + w - p inside of the image, 0 <= v, w < K;
//             Ho = floor((H + 2p - K) / s) + 1, Wo likewise. Of equal values the first one, row by row, is the maximum;
//             NaN is larger than any number.
//
//   backward:
//   [POOL-2]  dx_bhgc = sum of dy_bijc over the i, j whose maximum is that x, in the order of (i, j)
//
//   x: [B, H, W, C]; y: [B, Ho, Wo, C]; K: kernel; s: stride; p: padding. Padding is never the maximum.
//   Saved: the maximum's position in the kernel, v K + w, as u8 [B, Ho, Wo, C].
//   In PyTorch: torch.nn.functional.max_pool2d, channels_last; there, the last of several NaNs gets the gradient.
#pragma once
#include "engine/tape.h"

namespace foldgrad {

struct MaxPool2dOptions {
  std::int64_t kernel = 2, stride = 2, padding = 0;
};

// Throws std::invalid_argument unless x has the shape above and 1 to 2^29 pixels per image, kernel is in [1, 15] and
// fits the padded image, stride is positive, and padding is in [0, kernel / 2], so that every window has a pixel.
Var max_pool2d(const Var& x, const MaxPool2dOptions& options = {});

}  // namespace foldgrad
