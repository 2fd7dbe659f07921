#pragma once
#include "engine/kernels.h"

namespace foldgrad {

struct Conv2dSizes {
  std::int64_t batch, channels, height, width, kernel_height, kernel_width, out_height, out_width, stride, padding;
  bool channels_last;  // the image is [batch, height, width, channels], not [batch, channels, height, width]

  FOLDGRAD_HD std::int64_t places() const { return out_height * out_width; }                   // l
  FOLDGRAD_HD std::int64_t values() const { return channels * kernel_height * kernel_width; }  // k
  // Where a value of the image lies.
  FOLDGRAD_HD std::int64_t at(std::int64_t b, std::int64_t c, std::int64_t h, std::int64_t g) const {
    return channels_last ? ((b * height + h) * width + g) * channels + c
                         : ((b * channels + c) * height + h) * width + g;
  }
  // The place that sees row h, column g of the image at row v, column w of its kernel; -1: none does.
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
  const T* x;  // the image
  Conv2dSizes s;
};

template <class T>
struct UnfoldBackward {
  GradOut<T> dx;  // gradient of the image
  const T* du;    // [batch, places, values]
  Conv2dSizes s;
};

FOLDGRAD_DECLARE(unfold, UnfoldForward);
FOLDGRAD_DECLARE(unfold, UnfoldBackward);

}  // namespace foldgrad
