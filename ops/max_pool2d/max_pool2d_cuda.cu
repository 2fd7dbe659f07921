#include "engine/cuda/cells.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

// Computes channels c ... c + N - 1 of position r of y_b.
template <class T, int N>
struct PoolPack {
  MaxPool2dForward<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t r, std::int64_t c) const {
    using Value = compute_t<T>;
    const MaxPool2dSizes& s = p.s;
    const int i = int(r) / s.out_width, j = int(r) % s.out_width;
    const auto rows = s.hits(i, s.height), columns = s.hits(j, s.width);
    Value max[N] = {};
    Pack<std::uint8_t, N> from = {};
    bool first = true;
    for (int v = rows.begin; v < rows.end; ++v)
      for (int w = columns.begin; w < columns.end; ++w) {
        const int h = i * s.stride + v - s.padding, g = j * s.stride + w - s.padding;
        const Pack<T, N> x = load_pack<N>(p.x + ((b * s.height + h) * s.width + g) * s.channels + c);
        FOLDGRAD_UNROLL
        for (int e = 0; e < N; ++e) {
          const Value value = Value(x.v[e]);
          const bool taken = first || exceeds(value, max[e]);
          max[e] = taken ? value : max[e];
          from.v[e] = taken ? std::uint8_t(v * s.kernel + w) : from.v[e];
        }
        first = false;
      }
    const std::int64_t place = (b * s.out_height * s.out_width + r) * s.channels + c;
    store_pack(p.y + place, rounded<T>(max));
    store_pack(p.from + place, from);
  }
};

// Computes channels c ... c + N - 1 of pixel r of dx_b: sums over all positions of y whose windows contain the pixel,
// so no two threads write the same element.
template <class T, int N>
struct GatherPack {
  MaxPool2dBackward<T> p;

  __device__ void operator()(std::int64_t b, std::int64_t r, std::int64_t c) const {
    using Value = compute_t<T>;
    const MaxPool2dSizes& s = p.s;
    const int h = int(r) / s.width, g = int(r) % s.width;
    const auto rows = s.seen_from(h, s.out_height), columns = s.seen_from(g, s.out_width);
    Value sums[N] = {};
    for (int i = rows.begin; i < rows.end; ++i)
      for (int j = columns.begin; j < columns.end; ++j) {
        const int v = h + s.padding - i * s.stride, w = g + s.padding - j * s.stride;
        const std::int64_t place = ((b * s.out_height + i) * s.out_width + j) * s.channels + c;
        const Pack<std::uint8_t, N> from = load_pack<N>(p.from + place);
        const Pack<T, N> dy = load_pack<N>(p.dy + place);
        FOLDGRAD_UNROLL
        for (int e = 0; e < N; ++e) sums[e] += from.v[e] == v * s.kernel + w ? Value(dy.v[e]) : Value(0);
      }
    put_pack(p.dx, (b * s.height * s.width + r) * s.channels + c, sums);  // [POOL-2]
  }
};

}  // namespace

template <class T>
void max_pool2d_cuda(const MaxPool2dForward<T>& p) {
  const std::int64_t places = p.s.out_height * p.s.out_width;
  cells_in_packs_cuda<PoolPack>("max_pool2d forward", p.s.batch, places, p.s.channels, p, p.x, p.y, p.from);
}
template <class T>
void max_pool2d_cuda(const MaxPool2dBackward<T>& p) {
  const std::int64_t pixels = p.s.height * p.s.width;
  cells_in_packs_cuda<GatherPack>("max_pool2d backward", p.s.batch, pixels, p.s.channels, p, p.dx.data, p.dy, p.from);
}

FOLDGRAD_INSTANTIATE(max_pool2d_cuda, MaxPool2dForward);
FOLDGRAD_INSTANTIATE(max_pool2d_cuda, MaxPool2dBackward);

}  // namespace foldgrad
