#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Within an image all is int, since a division of 64 bits takes a GPU a hundred instructions.
struct MaxPool2dSizes {
  struct Range {
    int begin, end;  // begin >= end: nothing
  };
  std::int64_t batch, channels;
  int height, width, out_height, out_width, kernel, stride, padding;

  // Returns the kernel's rows that hit the image at place i; its columns likewise.
  FOLDGRAD_HD Range hits(int i, int image) const {
    const int first = i * stride - padding, rest = image - first;
    return {first < 0 ? -first : 0, rest < kernel ? rest : kernel};
  }
  // Returns the places that see row h of the image, of `places` in all; those of a column likewise.
  FOLDGRAD_HD Range seen_from(int h, int places) const {
    const int before = h + padding - kernel + 1, end = (h + padding) / stride + 1;
    return {before > 0 ? (before + stride - 1) / stride : 0, end < places ? end : places};
  }
};

// Returns true if the later `value` replaces `max`: it is larger, or the first NaN.
template <class Value>
FOLDGRAD_HD bool exceeds(Value value, Value max) {
  return !(value <= max) && max == max;  // [POOL-1]
}

template <class T>
struct MaxPool2dForward {
  T* y;                // [batch, out_height, out_width, channels]
  std::uint8_t* from;  // of the same shape
  const T* x;          // [batch, height, width, channels]
  MaxPool2dSizes s;
};

template <class T>
struct MaxPool2dBackward {
  GradOut<T> dx;             // [batch, height, width, channels]
  const T* dy;               // [batch, out_height, out_width, channels]
  const std::uint8_t* from;  // of the same shape
  MaxPool2dSizes s;
};

FOLDGRAD_DECLARE(max_pool2d, MaxPool2dForward);
FOLDGRAD_DECLARE(max_pool2d, MaxPool2dBackward);

}  // namespace foldgrad
