#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct ImageInput {
  using Value = compute_t<T>;

  T* y;                   // [pixels, 3]
  const std::uint8_t* x;  // [pixels, 3]
  std::int64_t n;         // number of pixels
  Value mean[3], std[3];

  FOLDGRAD_HD static T normalized(std::uint8_t x, Value mean, Value std) {
    return T((Value(x) / Value(255) - mean) / std);  // [IMG-1]
  }
  FOLDGRAD_HD void operator()(std::int64_t pixel) const {
    for (int c = 0; c < 3; ++c) y[3 * pixel + c] = normalized(x[3 * pixel + c], mean[c], std[c]);
  }
};

FOLDGRAD_DECLARE(image_input, ImageInput);

}  // namespace foldgrad
