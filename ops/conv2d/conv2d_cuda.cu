#include "engine/cuda/elementwise.h"
#include "ops/conv2d/conv2d_kernels.h"

namespace foldgrad {
namespace {

// Computes one element of u.
template <class T>
struct UnfoldElement {
  static constexpr const char* kName = "unfold forward";
  UnfoldForward<T> p;
  std::int64_t n = p.s.batch * p.s.places() * p.s.values();

  __device__ void operator()(std::int64_t e) const {
    const Conv2dSizes& s = p.s;
    const std::int64_t k = e % s.values(), l = e / s.values() % s.places(), b = e / s.values() / s.places();
    const std::int64_t w = k % s.kernel_width, v = k / s.kernel_width % s.kernel_height,
                       c = k / s.kernel_width / s.kernel_height;
    const std::int64_t pixel = s.pixel_of(l / s.out_width, l % s.out_width, v, w);
    p.u[e] = pixel < 0 ? T(compute_t<T>(0)) : p.x[s.at(b, 0, pixel) + c];  // [CONV-1]
  }
};

// Computes one element of dx from all output positions that see it, so no two threads write the same element.
template <class T>
struct FoldElement {
  static constexpr const char* kName = "unfold backward";
  UnfoldBackward<T> p;
  std::int64_t n = p.s.batch * p.s.channels * p.s.height * p.s.width;

  __device__ void operator()(std::int64_t e) const {
    const Conv2dSizes& s = p.s;
    const std::int64_t c = e % s.channels, pixel = e / s.channels, g = pixel % s.width, h = pixel / s.width % s.height,
                       b = pixel / s.width / s.height;
    compute_t<T> sum = 0;
    for (std::int64_t v = 0; v < s.kernel_height; ++v)
      for (std::int64_t w = 0; w < s.kernel_width; ++w) {
        const std::int64_t l = s.place_of(h, g, v, w);
        if (l < 0) continue;
        sum += compute_t<T>(p.du[(b * s.places() + l) * s.values() + (c * s.kernel_height + v) * s.kernel_width + w]);
      }
    p.dx.put(e, sum);  // [CONV-3]
  }
};

// Sums one element of dweight over a part of the output positions.
template <class T>
struct DepthwiseWeightElement {
  static constexpr const char* kName = "depthwise convolution, partial weight gradients";
  DepthwiseWeightParts<T> p;
  std::int64_t n = p.parts * p.s.values();

  __device__ void operator()(std::int64_t e) const {
    using Value = compute_t<T>;
    const Conv2dSizes& s = p.s;
    const std::int64_t c = e % s.channels, k = e / s.channels % (s.kernel_height * s.kernel_width),
                       part = e / s.values(), v = k / s.kernel_width, w = k % s.kernel_width;
    Value sum = 0;
    for (std::int64_t row = p.begin(part); row < p.begin(part + 1); ++row) {
      const std::int64_t b = row / s.places(), l = row % s.places(),
                         pixel = s.pixel_of(l / s.out_width, l % s.out_width, v, w);
      if (pixel >= 0) sum += Value(p.dy[row * s.channels + c]) * Value(p.x[s.at(b, 0, pixel) + c]);  // [CONV-6]
    }
    p.sums[e] = sum;
  }
};

}  // namespace

template <class T>
void depthwise_weight_parts_cuda(const DepthwiseWeightParts<T>& p) {
  elementwise_cuda(DepthwiseWeightElement<T>{p});
}
template <class T>
void unfold_cuda(const UnfoldForward<T>& p) {
  elementwise_cuda(UnfoldElement<T>{p});
}
template <class T>
void unfold_cuda(const UnfoldBackward<T>& p) {
  elementwise_cuda(FoldElement<T>{p});
}

FOLDGRAD_INSTANTIATE(elementwise_cuda, Depthwise);
FOLDGRAD_INSTANTIATE(elementwise_cuda, DepthwiseWeight);
FOLDGRAD_INSTANTIATE(depthwise_weight_parts_cuda, DepthwiseWeightParts);
FOLDGRAD_INSTANTIATE(unfold_cuda, UnfoldForward);
FOLDGRAD_INSTANTIATE(unfold_cuda, UnfoldBackward);

}  // namespace foldgrad
