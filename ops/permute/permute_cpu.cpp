#include <algorithm>

#include "engine/cpu/rows.h"
#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kTile = 64;       // the fastest of 16, 32 and 64 for [8192, 512] f32 on 2 cores of a Zen 5
constexpr std::int64_t kPart = 1 << 14;  // elements per part: few enough for a few long rows to keep all threads busy

template <class T>
void copy_rows(const GradOut<T>& y, const T* x, const Permute<T>& p, std::int64_t height, std::int64_t width) {
  for (std::int64_t r = 0; r < height; ++r) {
    const GradOut<T> to{y.data + r * p.row_y, y.mode};
    const T* from = x + r * p.row_x;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) to.put(c, from[c]);
  }
}

// Transposes a tile in the L1 cache, so both the reads of x and the writes of y are contiguous. Whole tiles have a
// constant height and width, so the compiler can unroll the loops.
template <class T>
inline __attribute__((always_inline)) void transpose_tile(const GradOut<T>& y, std::int64_t row_y, const T* x,
                                                          std::int64_t column_x, std::int64_t height,
                                                          std::int64_t width) {
  T tile[kTile][kTile];
  for (std::int64_t c = 0; c < width; ++c)
    for (std::int64_t r = 0; r < height; ++r) tile[r][c] = x[c * column_x + r];
  for (std::int64_t r = 0; r < height; ++r) {
    const GradOut<T> to{y.data + r * row_y, y.mode};
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) to.put(c, tile[r][c]);
  }
}

template <class T>
void transpose_rows(const GradOut<T>& y, const T* x, const Permute<T>& p, std::int64_t height, std::int64_t columns) {
  for (std::int64_t left = 0; left < columns; left += kTile) {
    const GradOut<T> to{y.data + left, y.mode};
    const T* from = x + left * p.column_x;
    const std::int64_t width = std::min(kTile, columns - left);
    if (height == kTile && width == kTile)
      transpose_tile(to, p.row_y, from, p.column_x, kTile, kTile);
    else
      transpose_tile(to, p.row_y, from, p.column_x, height, width);
  }
}

}  // namespace

// Divides each matrix into parts of some rows and columns.
template <class T>
void permute_cpu(const Permute<T>& p) {
  if (p.columns == 0) return;
  const bool copies = p.column_x == 1;
  const std::int64_t most_rows = copies ? std::clamp<std::int64_t>(kPart / p.columns, 1, kTile) : kTile,
                     down = (p.rows + most_rows - 1) / most_rows, across = (p.columns + kPart - 1) / kPart;
  for_rows_cpu(p.matrices * down * across, most_rows * std::min(kPart, p.columns), [&](std::int64_t i) {
    std::int64_t in_x, in_y;
    p.start(i / across / down, in_x, in_y);
    const std::int64_t r = i / across % down * most_rows, height = std::min(most_rows, p.rows - r),
                       c = i % across * kPart, width = std::min(kPart, p.columns - c);
    const GradOut<T> y{p.y.data + in_y + r * p.row_y + c, p.y.mode};
    const T* x = p.x + in_x + r * p.row_x + c * p.column_x;
    copies ? copy_rows(y, x, p, height, width) : transpose_rows(y, x, p, height, width);
  });
}

FOLDGRAD_INSTANTIATE(permute_cpu, Permute);

}  // namespace foldgrad
