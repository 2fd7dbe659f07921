// Labelled images of the same size, kept in memory as bytes.
#pragma once
#include <string>
#include <vector>

#include "engine/tensor.h"
#include "ops/image_input/image_input.h"

namespace foldgrad {

constexpr std::int64_t kColours = 3;  // red, green and blue

struct ImageSet {
  Tensor pixels;                     // u8 [N, H, W, 3], on the CPU
  Tensor labels;                     // i64 [N], on the CPU; each in [0, classes.size())
  std::vector<std::string> classes;  // names of the classes

  std::int64_t size() const { return labels.size(); }
  std::int64_t height() const { return pixels.shape()[1]; }
  std::int64_t width() const { return pixels.shape()[2]; }
  std::int64_t image_bytes() const { return height() * width() * kColours; }
  // Returns image i, row-major and channels-last: channel c of (y, x) is byte (y * width() + x) * 3 + c.
  const std::uint8_t* image(std::int64_t i) const { return pixels.data<std::uint8_t>() + i * image_bytes(); }
  std::int64_t label(std::int64_t i) const { return labels.data<std::int64_t>()[i]; }
};

// Throws std::invalid_argument if a shape or dtype is wrong, if there are no images, or if a label is not a class.
void check(const ImageSet& images);

// A part of a data set: images for training, for the final score, and for choosing checkpoints. CIFAR has no `valid`.
enum class ImagePart { train, test, valid };

// Returns the mean and deviation of each channel over all pixels. A constant channel has deviation 0, so it cannot be
// normalized.
ImageStatistics image_statistics(const ImageSet& images);

}  // namespace foldgrad
