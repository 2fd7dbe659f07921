#pragma once
#include "engine/kernels.h"

namespace foldgrad {

template <class T>
struct ImageInput {
  using Value = compute_t<T>;

  T* y;                   // [pixels, 3]
  const std::uint8_t* x;  // [pixels, 3]
  std::int64_t pixels;
  Value mean[3], std[3];

  FOLDGRAD_HD void operator()(std::int64_t pixel) const {
    for (int c = 0; c < 3; ++c) {
      const std::int64_t i = 3 * pixel + c;
      y[i] = T((Value(x[i]) / Value(255) - mean[c]) / std[c]);  // [IMG-1]
    }
  }
};

FOLDGRAD_DECLARE(image_input, ImageInput);

}  // namespace foldgrad
