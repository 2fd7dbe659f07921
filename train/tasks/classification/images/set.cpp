#include "train/tasks/classification/images/set.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/check.h"
#include "engine/dispatch.h"

namespace foldgrad {

void check(const ImageSet& images) {
  const auto& [pixels, labels, classes] = images;
  FOLDGRAD_CHECK(pixels.defined() && pixels.dtype() == DType::u8 && pixels.device() == Device::cpu &&
                     pixels.shape().rank() == 4 && pixels.shape()[3] == kColours && pixels.size() > 0,
                 "images: pixels must be u8 [N, H, W, 3] on cpu with positive sizes, got {}", describe(pixels));
  const Shape per_image({pixels.shape()[0]});
  FOLDGRAD_CHECK(
      labels.defined() && labels.dtype() == DType::i64 && labels.device() == Device::cpu && labels.shape() == per_image,
      "images: labels must be i64 {} on cpu, got {}", per_image, describe(labels));
  for (std::int64_t i = 0; i < images.size(); ++i)
    FOLDGRAD_CHECK(images.label(i) >= 0 && images.label(i) < std::int64_t(classes.size()),
                   "images: the label of image {} must be in [0, {}), got {}", i, classes.size(), images.label(i));
}

// Sums integers, so that neither rounding nor order matters.
ImageStatistics image_statistics(const ImageSet& images) {
  std::array<std::uint64_t, kColours> sum{}, squares{};
  const std::int64_t bytes = images.pixels.size();
  const std::uint8_t* pixels = images.pixels.data<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes; i += kColours)
    for (std::int64_t c = 0; c < kColours; ++c) {
      sum[c] += pixels[i + c];
      squares[c] += std::uint64_t(pixels[i + c]) * pixels[i + c];
    }
  ImageStatistics s;
  const double n = double(bytes) / kColours;
  for (std::int64_t c = 0; c < kColours; ++c) {
    const double mean = double(sum[c]) / n;
    s.mean[c] = mean / 255;
    s.std[c] = std::sqrt(std::max(0.0, double(squares[c]) / n - mean * mean)) / 255;
  }
  return s;
}

}  // namespace foldgrad
