#include "engine/cpu/rows.h"
#include "ops/max_pool2d/max_pool2d_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // channels whose maxima, or sums, stay in registers

// Channels [first, first + width) of one place, a row of y.
template <class T>
void pool(const MaxPool2dForward<T>& p, std::int64_t place, std::int64_t first, std::int64_t width) {
  using Value = compute_t<T>;
  const MaxPool2dSizes& s = p.s;
  const std::int64_t j = place % s.out_width, i = place / s.out_width % s.out_height,
                     b = place / s.out_width / s.out_height;
  const auto rows = s.hits(i, s.height), columns = s.hits(j, s.width);
  Value max[kChunk];
  std::int32_t from[kChunk];
  for (std::int64_t v = rows.begin; v < rows.end; ++v)
    for (std::int64_t w = columns.begin; w < columns.end; ++w) {
      const std::int64_t h = i * s.stride + v - s.padding, g = j * s.stride + w - s.padding;
      const T* x = p.x + ((b * s.height + h) * s.width + g) * s.channels + first;
      const std::int32_t here = std::int32_t(v * s.kernel + w);
      const bool is_first = v == rows.begin && w == columns.begin;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        const Value value = x[c];
        const bool larger = is_first || exceeds(value, max[c]);
        max[c] = larger ? value : max[c];
        from[c] = larger ? here : from[c];
      }
    }
  T* y = p.y + place * s.channels + first;
  std::uint8_t* saved = p.from + place * s.channels + first;
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = T(max[c]);
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) saved[c] = std::uint8_t(from[c]);
}

// A pixel, and the places that see it.
struct Seen {
  std::int64_t b, h, g;
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
  for (std::int64_t i = rows.begin; i < rows.end; ++i)
    for (std::int64_t j = columns.begin; j < columns.end; ++j) {
      const std::int64_t v = h + s.padding - i * s.stride, w = g + s.padding - j * s.stride;
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
  for_rows_cpu(s.batch * s.out_height * s.out_width, s.kernel * s.kernel * s.channels, [&](std::int64_t place) {
    for (std::int64_t c = 0; c < s.channels; c += kChunk) pool(p, place, c, std::min(kChunk, s.channels - c));
  });
}
template <class T>
void max_pool2d_cpu(const MaxPool2dBackward<T>& p) {
  const MaxPool2dSizes& s = p.s;
  // By rows of an image, since to divide for each pixel would take longer than to add up its channels.
  for_rows_cpu(s.batch * s.height, s.width * s.channels, [&](std::int64_t row) {
    const std::int64_t b = row / s.height, h = row % s.height;
    const auto rows = s.seen_from(h, s.out_height);
    for (std::int64_t g = 0; g < s.width; ++g) {
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
