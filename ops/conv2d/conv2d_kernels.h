#pragma once
#include "engine/kernels.h"

namespace foldgrad {

struct Conv2dSizes {
  std::int64_t batch, channels, height, width, kernel_height, kernel_width, out_height, out_width, stride, padding;

  FOLDGRAD_HD std::int64_t places() const { return out_height * out_width; }                   // l
  FOLDGRAD_HD std::int64_t values() const { return channels * kernel_height * kernel_width; }  // k
  // Returns the index of a pixel's first channel in x.
  FOLDGRAD_HD std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t g) const {
    return ((b * height + h) * width + g) * channels;
  }
  // Returns the place whose kernel value (v, w) covers pixel (h, g) of the image; -1 if there is none.
  FOLDGRAD_HD std::int64_t place_of(std::int64_t h, std::int64_t g, std::int64_t v, std::int64_t w) const {
    const std::int64_t down = h + padding - v, across = g + padding - w;  // stride i, stride j
    if (down < 0 || across < 0 || down % stride != 0 || across % stride != 0) return -1;
    const std::int64_t i = down / stride, j = across / stride;
    return i < out_height && j < out_width ? i * out_width + j : -1;
  }
};

template <class T>
struct UnfoldForward {
  T* u;        // [batch, places, values]
  const T* x;  // [batch, height, width, channels]
  Conv2dSizes s;
};

template <class T>
struct UnfoldBackward {
  GradOut<T> dx;  // [batch, height, width, channels]
  const T* du;    // [batch, places, values]
  Conv2dSizes s;
};

FOLDGRAD_DECLARE(unfold, UnfoldForward);
FOLDGRAD_DECLARE(unfold, UnfoldBackward);

}  // namespace foldgrad
