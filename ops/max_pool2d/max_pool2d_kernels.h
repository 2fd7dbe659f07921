#pragma once
#include "engine/kernels.h"

namespace foldgrad {

// Positions within an image have type int, because a 64-bit division takes about a hundred instructions on a GPU.
struct MaxPool2dSizes {
  struct Range {
    int begin, end;  // the range is empty if begin >= end
  };
  std::int64_t batch, channels;
  int height, width, out_height, out_width, kernel, stride, padding;

  // Returns the rows of the kernel that are inside the image for output i. Also works for columns.
  FOLDGRAD_HD Range hits(int i, int image) const {
    const int first = i * stride - padding, rest = image - first;
    return {first < 0 ? -first : 0, rest < kernel ? rest : kernel};
  }
  // Returns the outputs in [0, places) whose kernel covers row h of the image. Also works for columns.
  FOLDGRAD_HD Range seen_from(int h, int places) const {
    const int before = h + padding - kernel + 1, end = (h + padding) / stride + 1;
    return {before > 0 ? (before + stride - 1) / stride : 0, end < places ? end : places};
  }
};

// Returns true if the later `value` replaces `max`, because it is larger or the first NaN.
template <class Value>
FOLDGRAD_HD bool exceeds(Value value, Value max) {
  return !(value <= max) && max == max;  // [POOL-1]
}

template <class T>
struct MaxPool2dForward {
  T* y;                // [batch, out_height, out_width, channels]
  std::uint8_t* from;  // has the shape of y
  const T* x;          // [batch, height, width, channels]
  MaxPool2dSizes s;
};

template <class T>
struct MaxPool2dBackward {
  GradOut<T> dx;             // [batch, height, width, channels]
  const T* dy;               // [batch, out_height, out_width, channels]
  const std::uint8_t* from;  // has the shape of dy
  MaxPool2dSizes s;
};

FOLDGRAD_DECLARE(max_pool2d, MaxPool2dForward);
FOLDGRAD_DECLARE(max_pool2d, MaxPool2dBackward);

}  // namespace foldgrad
