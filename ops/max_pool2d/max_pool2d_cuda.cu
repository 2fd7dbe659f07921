#include "engine/cuda/elementwise.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

// One element of y.
template <class T>
struct PoolElement {
  MaxPool2dForward<T> p;

  __device__ void operator()(std::int64_t e) const {
    using Value = compute_t<T>;
    const MaxPool2dSizes& s = p.s;
    const std::int64_t c = e % s.channels, j = e / s.channels % s.out_width,
                       i = e / s.channels / s.out_width % s.out_height, b = e / s.channels / s.out_width / s.out_height;
    const auto rows = s.hits(i, s.height), columns = s.hits(j, s.width);
    Value max = 0;
    std::int64_t from = -1;
    for (std::int64_t v = rows.begin; v < rows.end; ++v)
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const std::int64_t h = i * s.stride + v - s.padding, g = j * s.stride + w - s.padding;
        const Value value = p.x[((b * s.height + h) * s.width + g) * s.channels + c];
        if (from >= 0 && !exceeds(value, max)) continue;
        max = value;
        from = v * s.kernel + w;
      }
    p.y[e] = T(max);
    p.from[e] = std::uint8_t(from);
  }
};

// One element of dx, from all places that see it: no two threads write the same.
template <class T>
struct GatherElement {
  MaxPool2dBackward<T> p;

  __device__ void operator()(std::int64_t e) const {
    const MaxPool2dSizes& s = p.s;
    const std::int64_t c = e % s.channels, g = e / s.channels % s.width, h = e / s.channels / s.width % s.height,
                       b = e / s.channels / s.width / s.height;
    const auto rows = s.seen_from(h, s.out_height), columns = s.seen_from(g, s.out_width);
    compute_t<T> sum = 0;
    for (std::int64_t i = rows.begin; i < rows.end; ++i)
      for (std::int64_t j = columns.begin; j < columns.end; ++j) {
        const std::int64_t v = h + s.padding - i * s.stride, w = g + s.padding - j * s.stride;
        const std::int64_t place = ((b * s.out_height + i) * s.out_width + j) * s.channels + c;
        if (p.from[place] == v * s.kernel + w) sum += compute_t<T>(p.dy[place]);
      }
    p.dx.put(e, sum);  // [POOL-2]
  }
};

}  // namespace

template <class T>
void max_pool2d_cuda(const MaxPool2dForward<T>& p) {
  elementwise_cuda("max_pool2d forward", p.s.batch * p.s.out_height * p.s.out_width * p.s.channels, PoolElement<T>{p});
}
template <class T>
void max_pool2d_cuda(const MaxPool2dBackward<T>& p) {
  elementwise_cuda("max_pool2d backward", p.s.batch * p.s.height * p.s.width * p.s.channels, GatherElement<T>{p});
}

FOLDGRAD_INSTANTIATE(max_pool2d_cuda, MaxPool2dForward);
FOLDGRAD_INSTANTIATE(max_pool2d_cuda, MaxPool2dBackward);

}  // namespace foldgrad
