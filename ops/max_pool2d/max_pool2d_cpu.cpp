#include "engine/cpu/rows.h"
#include "engine/cpu/vector.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

// The pixels under the kernel at one place.
struct Window {
  std::int64_t pixel;  // under the kernel's first row and column; may be padding
  MaxPool2dSizes::Range rows, columns;
};

// Channels [c, c + N lanes) of one place, a row of y. All stay in registers from the first pixel of the window to the
// last, and N is more than 1 because each comparison waits for the one before it.
template <int N, class T>
void pool_vectors(const MaxPool2dForward<T>& p, const Window& seen, std::int64_t place, std::int64_t c) {
  using Value = compute_t<T>;
  constexpr int L = kLanes<Value>;
  const auto at = [&](int v, int w) { return p.x + (seen.pixel + v * p.s.width + w) * p.s.channels + c; };
  Vector<Value> max[N];
  VectorOrder<Value> from[N];
  for (int k = 0; k < N; ++k) {
    max[k] = load(at(seen.rows.begin, seen.columns.begin) + k * L);
    from[k] = VectorOrder<Value>{} + (seen.rows.begin * p.s.kernel + seen.columns.begin);
  }
  for (int v = seen.rows.begin; v < seen.rows.end; ++v)
    for (int w = seen.columns.begin; w < seen.columns.end; ++w) {
      const auto here = VectorOrder<Value>{} + (v * p.s.kernel + w);
      for (int k = 0; k < N; ++k) {
        const Vector<Value> value = load(at(v, w) + k * L);
        const auto larger = exceeds(value, max[k]);
        max[k] = larger ? value : max[k];
        from[k] = larger ? here : from[k];
      }
    }
  for (int k = 0; k < N; ++k) {
    T* y = p.y + place * p.s.channels + c + k * L;
    std::uint8_t* saved = p.from + place * p.s.channels + c + k * L;
#pragma omp simd
    for (int lane = 0; lane < L; ++lane) y[lane] = T(max[k][lane]);
#pragma omp simd
    for (int lane = 0; lane < L; ++lane) saved[lane] = std::uint8_t(from[k][lane]);
  }
}

// The same for one channel.
template <class T>
void pool_channel(const MaxPool2dForward<T>& p, const Window& seen, std::int64_t place, std::int64_t c) {
  using Value = compute_t<T>;
  Value max = 0;
  int from = -1;
  for (int v = seen.rows.begin; v < seen.rows.end; ++v)
    for (int w = seen.columns.begin; w < seen.columns.end; ++w) {
      const Value value = p.x[(seen.pixel + v * p.s.width + w) * p.s.channels + c];
      if (from >= 0 && !exceeds(value, max)) continue;
      max = value;
      from = v * p.s.kernel + w;
    }
  p.y[place * p.s.channels + c] = T(max);
  p.from[place * p.s.channels + c] = std::uint8_t(from);
}

constexpr std::int64_t kChunk = 64;  // channels whose sums stay in registers

// A pixel, and the places that see it.
struct Seen {
  std::int64_t b;
  int h, g;
  MaxPool2dSizes::Range rows, columns;
};

// Channels [first, first + width) of one pixel, a row of dx. Width is a constant where it can be: then the
// loops are whole vectors of bytes, and have nothing left over.
template <class T, class Width>
void gather(const MaxPool2dBackward<T>& p, const Seen& seen, std::int64_t first, Width width) {
  using Value = compute_t<T>;
  const MaxPool2dSizes& s = p.s;
  const auto [b, h, g, rows, columns] = seen;
  Value sums[kChunk] = {};
  for (int i = rows.begin; i < rows.end; ++i)
    for (int j = columns.begin; j < columns.end; ++j) {
      const int v = h + s.padding - i * s.stride, w = g + s.padding - j * s.stride;
      const std::int64_t place = ((b * s.out_height + i) * s.out_width + j) * s.channels + first;
      const T* dy = p.dy + place;
      const std::uint8_t *from = p.from + place, here = std::uint8_t(v * s.kernel + w);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) sums[c] += from[c] == here ? Value(dy[c]) : Value(0);  // [POOL-2]
    }
  const GradOut<T> dx{p.dx.data + ((b * s.height + h) * s.width + g) * s.channels + first, p.dx.mode};
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) dx.put(c, sums[c]);
}

}  // namespace

template <class T>
void max_pool2d_cpu(const MaxPool2dForward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  constexpr int L = kLanes<compute_t<T>>;
  // By rows of an image, since to divide for each place would take longer than to compare its channels.
  for_rows_cpu(s.batch * s.out_height, s.channels * s.out_width * s.kernel * s.kernel, [&](std::int64_t row) {
    const std::int64_t b = row / s.out_height;
    const int i = int(row % s.out_height), h = i * s.stride - s.padding;
    const auto rows = s.hits(i, s.height);
    for (int j = 0; j < s.out_width; ++j) {
      const Window seen{(b * s.height + h) * s.width + j * s.stride - s.padding, rows, s.hits(j, s.width)};
      const std::int64_t place = row * s.out_width + j;
      std::int64_t c = 0;
      for (; c + 4 * L <= s.channels; c += 4 * L) pool_vectors<4>(p, seen, place, c);
      for (; c + L <= s.channels; c += L) pool_vectors<1>(p, seen, place, c);
      for (; c < s.channels; ++c) pool_channel(p, seen, place, c);
    }
  });
}
template <class T>
void max_pool2d_cpu(const MaxPool2dBackward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  for_rows_cpu(s.batch * s.height, s.width * s.channels, [&](std::int64_t row) {
    const std::int64_t b = row / s.height;
    const int h = int(row % s.height);
    const auto rows = s.seen_from(h, s.out_height);
    for (int g = 0; g < s.width; ++g) {
      const Seen seen{b, h, g, rows, s.seen_from(g, s.out_width)};
      std::int64_t c = 0;
      for (; c + kChunk <= s.channels; c += kChunk) gather(p, seen, c, std::integral_constant<std::int64_t, kChunk>());
      if (c < s.channels) gather(p, seen, c, s.channels - c);
    }
  });
}

FOLDGRAD_INSTANTIATE(max_pool2d_cpu, MaxPool2dForward);
FOLDGRAD_INSTANTIATE(max_pool2d_cpu, MaxPool2dBackward);

}  // namespace foldgrad
