// Mixes training images in pairs: row b of a batch with row B - 1 - b, whose class becomes a second target. All random
// numbers come from Random{seed, stream, step}, so a resumed run mixes images as an uninterrupted run does.
//
//   [MIX-1]  lambda ~ Beta(a, a), by rejection with algorithm BA of Cheng (1978, Generating beta variates with
//            nonintegral shape parameters) for two equal parameters:
//            v = log(u / (1 - u)) / b with b = a for a <= 1, otherwise sqrt(a), and u, w uniform in (0, 1);
//            lambda = 1 / (1 + e^-v) is accepted if 2 a log(2 / (1 + e^v)) + (a + b) v - log 4 >= log(u^2 w)
//   [MIX-2]  mixup (Zhang et al., 2018): y_b = lambda x_b + (1 - lambda) x_(B-1-b), rounded to the nearest byte
//   [MIX-3]  CutMix (Yun et al., 2019): a box of x_b is replaced by the same box of x_(B-1-b). It has floor(H r) rows
//            and floor(W r) columns, r = sqrt(1 - lambda), around any pixel, and is cut off at the image's borders;
//            lambda becomes the fraction of the image outside of it.
#pragma once
#include "engine/tensor.h"

namespace foldgrad {

struct MixOptions {
  // alpha of Beta(alpha, alpha); 0 turns the method off. If both are on, each step picks one at random.
  double mixup = 0, cutmix = 0;
};

// The mix of one step's images.
struct Mix {
  double lambda = 1;  // weight of the first class
  bool cut = false;   // true for CutMix, false for mixup
  // The box of CutMix: rows [top, bottom) and columns [left, right).
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// Draws the mix of a step for images of height x width. Throws std::invalid_argument for a negative or non-finite
// option.
Mix draw_mix(const MixOptions& options, std::int64_t height, std::int64_t width, std::uint64_t seed, std::int64_t step);

struct MixedImages {
  Tensor images;          // u8 [B, H, W, 3]
  Tensor labels, others;  // i64 [B]: the targets of rows b and B - 1 - b
  Tensor lambda;          // f32 [B], all equal: the weight of `labels`
};

// Applies a mix to images, u8 [B, H, W, 3], and labels, i64 [B], both on the CPU.
MixedImages mix(const Tensor& images, const Tensor& labels, const Mix& mix);

}  // namespace foldgrad
