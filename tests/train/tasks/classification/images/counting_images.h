// Images in which each byte shows its position.
#pragma once
#include <string>

#include "train/tasks/classification/images/set.h"

namespace foldgrad::testing {

// Makes images whose bytes count up, modulo 251, through all images. 251 is a prime, so no two rows or channels are
// equal. Labels cycle through the classes.
inline ImageSet counting_images(std::int64_t count, std::int64_t height, std::int64_t width, std::int64_t classes) {
  ImageSet images{Tensor::empty({count, height, width, kColours}, DType::u8), Tensor::empty({count}, DType::i64), {}};
  for (std::int64_t k = 0; k < images.pixels.size(); ++k) images.pixels.data<std::uint8_t>()[k] = std::uint8_t(k % 251);
  for (std::int64_t i = 0; i < count; ++i) images.labels.data<std::int64_t>()[i] = i % classes;
  for (std::int64_t c = 0; c < classes; ++c) images.classes.push_back("class " + std::to_string(c));
  return images;
}

}  // namespace foldgrad::testing
