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
    const std::int64_t h = l / s.out_width * s.stride + v - s.padding, g = l % s.out_width * s.stride + w - s.padding;
    const bool inside = 0 <= h && h < s.height && 0 <= g && g < s.width;
    p.u[e] = inside ? p.x[s.at(b, h, g) + c] : T(compute_t<T>(0));  // [CONV-1]
  }
};

// Computes one element of dx from all places that see it; so no two threads write the same.
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

}  // namespace

template <class T>
void unfold_cuda(const UnfoldForward<T>& p) {
  elementwise_cuda(UnfoldElement<T>{p});
}
template <class T>
void unfold_cuda(const UnfoldBackward<T>& p) {
  elementwise_cuda(FoldElement<T>{p});
}

FOLDGRAD_INSTANTIATE(unfold_cuda, UnfoldForward);
FOLDGRAD_INSTANTIATE(unfold_cuda, UnfoldBackward);

}  // namespace foldgrad
