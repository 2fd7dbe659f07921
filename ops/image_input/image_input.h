// Converts images that are stored as bytes to a model's input.
//
//   [IMG-1]  y_bhgc = (x_bhgc / 255 - mean_c) / std_c
//
//   x: u8 [B, H, W, 3]; y: x's shape. Bytes have no gradient. The arithmetic has the same order as in torchvision's
//   ToTensor and Normalize, so f32 results are bit-identical.
#pragma once
#include <array>

#include "engine/tape.h"

namespace foldgrad {

// Mean and standard deviation of red, green and blue over the training images, as fractions of 255.
struct ImageStatistics {
  std::array<double, 3> mean = {0, 0, 0}, std = {1, 1, 1};
  bool operator==(const ImageStatistics&) const = default;
};

// Throws std::invalid_argument unless x has the shape and dtype above, dtype is f32, f64 or bf16, every mean is finite,
// and every std is finite and positive.
Var image_input(const Var& x, const ImageStatistics& statistics, DType dtype);

}  // namespace foldgrad
