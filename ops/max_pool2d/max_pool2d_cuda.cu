#include "engine/cuda/cells.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

// Channel c of place r of y_b.
template <class T>
struct PoolElement {
  MaxPool2dForward<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t r, std::int64_t c) const {
    using Value = compute_t<T>;
    const MaxPool2dSizes& s = p.s;
    const int i = int(r) / s.out_width, j = int(r) % s.out_width;
    const auto rows = s.hits(i, s.height), columns = s.hits(j, s.width);
    Value max = 0;
    int from = -1;
    for (int v = rows.begin; v < rows.end; ++v)
      for (int w = columns.begin; w < columns.end; ++w) {
        const int h = i * s.stride + v - s.padding, g = j * s.stride + w - s.padding;
        const Value value = p.x[((b * s.height + h) * s.width + g) * s.channels + c];
        if (from >= 0 && !exceeds(value, max)) continue;
        max = value;
        from = v * s.kernel + w;
      }
    const std::int64_t e = (b * s.out_height * s.out_width + r) * s.channels + c;
    p.y[e] = T(max);
    p.from[e] = std::uint8_t(from);
  }
};

// Channel c of pixel r of dx_b, from all places that see it: no two threads write the same.
template <class T>
struct GatherElement {
  MaxPool2dBackward<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t r, std::int64_t c) const {
    const MaxPool2dSizes& s = p.s;
    const int h = int(r) / s.width, g = int(r) % s.width;
    const auto rows = s.seen_from(h, s.out_height), columns = s.seen_from(g, s.out_width);
    compute_t<T> sum = 0;
    for (int i = rows.begin; i < rows.end; ++i)
      for (int j = columns.begin; j < columns.end; ++j) {
        const int v = h + s.padding - i * s.stride, w = g + s.padding - j * s.stride;
        const std::int64_t place = ((b * s.out_height + i) * s.out_width + j) * s.channels + c;
        if (p.from[place] == v * s.kernel + w) sum += compute_t<T>(p.dy[place]);
      }
    p.dx.put((b * s.height * s.width + r) * s.channels + c, sum);  // [POOL-2]
  }
};

}  // namespace

template <class T>
void max_pool2d_cuda(const MaxPool2dForward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  cells_cuda("max_pool2d forward", s.batch, s.out_height * s.out_width, s.channels, PoolElement<T>{p});
}
template <class T>
void max_pool2d_cuda(const MaxPool2dBackward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  cells_cuda("max_pool2d backward", s.batch, s.height * s.width, s.channels, GatherElement<T>{p});
}

FOLDGRAD_INSTANTIATE(max_pool2d_cuda, MaxPool2dForward);
FOLDGRAD_INSTANTIATE(max_pool2d_cuda, MaxPool2dBackward);

}  // namespace foldgrad
