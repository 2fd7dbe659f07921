#pragma once
#include "engine/kernels.h"

namespace foldgrad {

struct Conv2dSizes {
  std::int64_t batch, channels, height, width, kernel_height, kernel_width, out_height, out_width, stride, padding,
      end_padding;

  FOLDGRAD_HD std::int64_t places() const { return out_height * out_width; }                   // l
  FOLDGRAD_HD std::int64_t values() const { return channels * kernel_height * kernel_width; }  // k
  // Returns the index of a pixel's first channel in x.
  FOLDGRAD_HD std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t g) const {
    return ((b * height + h) * width + g) * channels;
  }
  // Returns the output position whose kernel value (v, w) covers pixel (h, g) of the image; -1 if there is none.
  FOLDGRAD_HD std::int64_t place_of(std::int64_t h, std::int64_t g, std::int64_t v, std::int64_t w) const {
    const std::int64_t down = h + padding - v, across = g + padding - w;  // stride * i and stride * j
    if (down < 0 || across < 0 || down % stride != 0 || across % stride != 0) return -1;
    const std::int64_t i = down / stride, j = across / stride;
    return i < out_height && j < out_width ? i * out_width + j : -1;
  }
  // Returns the pixel of the image that kernel value (v, w) covers at output position (i, j); -1 if it is padding.
  FOLDGRAD_HD std::int64_t pixel_of(std::int64_t i, std::int64_t j, std::int64_t v, std::int64_t w) const {
    const std::int64_t h = i * stride + v - padding, g = j * stride + w - padding;
    return 0 <= h && h < height && 0 <= g && g < width ? h * width + g : -1;
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

// Computes y of a depthwise convolution from x, or dx from dy. `from` is x or dy.
template <class T>
struct Depthwise {
  static constexpr const char* kName = "depthwise convolution";
  T* to;
  const T *from, *weight, *bias;  // bias is null if there is none
  Conv2dSizes s;
  bool backward;
  std::int64_t n = s.batch * s.channels * (backward ? s.height * s.width : s.places());

  FOLDGRAD_HD T* target() const { return to; }
  FOLDGRAD_HD compute_t<T> value(std::int64_t e) const {
    const std::int64_t C = s.channels, c = e % C, width = backward ? s.width : s.out_width,
                       height = backward ? s.height : s.out_height, column = e / C % width,
                       row = e / C / width % height, b = e / C / width / height,
                       pixels = backward ? s.places() : s.height * s.width;
    compute_t<T> sum = 0;
    for (std::int64_t v = 0; v < s.kernel_height; ++v)
      for (std::int64_t w = 0; w < s.kernel_width; ++w) {
        const std::int64_t at = backward ? s.place_of(row, column, v, w) : s.pixel_of(row, column, v, w);
        if (at < 0) continue;
        sum += compute_t<T>(from[(b * pixels + at) * C + c]) *
               compute_t<T>(weight[(c * s.kernel_height + v) * s.kernel_width + w]);  // [CONV-4] [CONV-5]
      }
    return bias ? sum + compute_t<T>(bias[c]) : sum;
  }
};

// Partial sums of a depthwise convolution's dweight. Each sum covers one part of the output positions of all images.
template <class T>
struct DepthwiseWeightParts {
  compute_t<T>* sums;  // [parts, kernel_height * kernel_width, channels]
  const T *x, *dy;
  Conv2dSizes s;
  std::int64_t parts;

  // Returns the first output position of a part; the positions of all images are numbered consecutively.
  FOLDGRAD_HD std::int64_t begin(std::int64_t part) const { return s.batch * s.places() * part / parts; }
};

// Adds the partial sums of all parts in order.
template <class T>
struct DepthwiseWeight {
  static constexpr const char* kName = "depthwise convolution, weight gradient";
  compute_t<T>* exact;  // [channels, kernel_height, kernel_width]; if null, `rounded` receives the sums
  T* rounded;
  const compute_t<T>* sums;
  std::int64_t channels, kernel, parts;
  std::int64_t n = channels * kernel;

  FOLDGRAD_HD void operator()(std::int64_t e) const {
    compute_t<T> sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += sums[(part * kernel + e % kernel) * channels + e / kernel];
    if (exact)
      exact[e] = sum;
    else
      rounded[e] = T(sum);
  }
};

FOLDGRAD_DECLARE(depthwise_weight_parts, DepthwiseWeightParts);
FOLDGRAD_DECLARE(unfold, UnfoldForward);
FOLDGRAD_DECLARE(unfold, UnfoldBackward);

}  // namespace foldgrad
