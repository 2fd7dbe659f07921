#include <limits>
#include <vector>

#include "engine/cpu/rows.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // number of channels whose results stay in registers

// In the forward pass, position (i, j) of y, and the rows and columns of the kernel that are inside the image. In the
// backward pass, pixel (i, j) of the image, and the rows and columns of the positions that see it.
struct Cell {
  std::int64_t b;
  int i, j;
  MaxPool2dSizes::Range rows, columns;
};

// Calls f(cell, first, width) for channels [first, first + width) of all height x width cells of every image. `width`
// is a constant if possible, so that loops consist of whole vectors. A cell reads `work` elements per channel.
template <class Rows, class Columns, class F>
void for_chunks(const MaxPool2dSizes& s, int height, int width, int work, const Rows& rows_of,
                const Columns& columns_of, const F& f) {
  std::vector<MaxPool2dSizes::Range> columns;
  for (int j = 0; j < width; ++j) columns.push_back(columns_of(j));
  for_rows_cpu(s.batch * height, s.channels * width * work, [&](std::int64_t row) {
    const std::int64_t b = row / height;
    const int i = int(row % height);
    const auto rows = rows_of(i);
    for (int j = 0; j < width; ++j) {
      const Cell cell{b, i, j, rows, columns[j]};
      std::int64_t c = 0;
      for (; c + kChunk <= s.channels; c += kChunk) f(cell, c, std::integral_constant<std::int64_t, kChunk>());
      if (c < s.channels) f(cell, c, s.channels - c);
    }
  });
}

template <class T, class Width>
void pool(const MaxPool2dForward<T>& p, const Cell& at, std::int64_t first, Width width) {
  using Value = compute_t<T>;
  const MaxPool2dSizes& s = p.s;
  const int top = at.i * s.stride - s.padding, left = at.j * s.stride - s.padding;
  Value max[kChunk], from[kChunk];  // have the same type, so that one comparison selects both
  std::fill_n(max, kChunk, -std::numeric_limits<Value>::infinity());
  std::fill_n(from, kChunk, Value(at.rows.begin * s.kernel + at.columns.begin));
  for (int v = at.rows.begin; v < at.rows.end; ++v)
    for (int w = at.columns.begin; w < at.columns.end; ++w) {
      const T* x = p.x + ((at.b * s.height + top + v) * s.width + left + w) * s.channels + first;
      const Value here = Value(v * s.kernel + w);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        const Value value = x[c];
        const bool larger = exceeds(value, max[c]);
        max[c] = larger ? value : max[c];
        from[c] = larger ? here : from[c];
      }
    }
  const std::int64_t place = ((at.b * s.out_height + at.i) * s.out_width + at.j) * s.channels + first;
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) p.y[place + c] = T(max[c]);
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) p.from[place + c] = std::uint8_t(from[c]);
}

template <class T, class Width>
void gather(const MaxPool2dBackward<T>& p, const Cell& at, std::int64_t first, Width width) {
  using Value = compute_t<T>;
  const MaxPool2dSizes& s = p.s;
  Value sums[kChunk];
  std::fill_n(sums, std::int64_t(width), Value(0));  // GCC would zero the whole array with a slow string instruction
  for (int i = at.rows.begin; i < at.rows.end; ++i)
    for (int j = at.columns.begin; j < at.columns.end; ++j) {
      const int v = at.i + s.padding - i * s.stride, w = at.j + s.padding - j * s.stride;
      const std::int64_t place = ((at.b * s.out_height + i) * s.out_width + j) * s.channels + first;
      const T* dy = p.dy + place;
      const std::uint8_t *from = p.from + place, here = std::uint8_t(v * s.kernel + w);
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        const Value value = dy[c];                      // always read, since a masked load is slower
        sums[c] += from[c] == here ? value : Value(0);  // [POOL-2]
      }
    }
  const std::int64_t pixel = ((at.b * s.height + at.i) * s.width + at.j) * s.channels + first;
  const bool bypass = rows_bypass_cache(p.dx, s.batch * s.height * s.width * s.channels);
  write_cpu(p.dx, pixel, pixel + width, bypass, [&sums, pixel](std::int64_t c) { return sums[c - pixel]; });
}

}  // namespace

template <class T>
void max_pool2d_cpu(const MaxPool2dForward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  for_chunks(
      s, s.out_height, s.out_width, s.kernel * s.kernel, [&s](int i) { return s.hits(i, s.height); },
      [&s](int j) { return s.hits(j, s.width); }, [&p](const Cell& at, auto... chunk) { pool(p, at, chunk...); });
}
template <class T>
void max_pool2d_cpu(const MaxPool2dBackward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  for_chunks(
      s, s.height, s.width, /*work=*/1, [&s](int h) { return s.seen_from(h, s.out_height); },
      [&s](int g) { return s.seen_from(g, s.out_width); },
      [&p](const Cell& at, auto... chunk) { gather(p, at, chunk...); });
}

FOLDGRAD_INSTANTIATE(max_pool2d_cpu, MaxPool2dForward);
FOLDGRAD_INSTANTIATE(max_pool2d_cpu, MaxPool2dBackward);

}  // namespace foldgrad
