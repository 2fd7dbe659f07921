#include <algorithm>

#include "ops/permute/permute_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kParallelElements = 32768;
constexpr std::int64_t kTile = 16;  // a cache line of f32 in each direction

template <class T>
void copy_rows(const GradOut<T>& y, const T* x, const Permute<T>& p, std::int64_t first, std::int64_t end) {
  const std::int64_t columns = p.columns;
  for (std::int64_t r = first; r < end; ++r) {
    const GradOut<T> to{y.data + r * p.row_y, y.mode};
    const T* from = x + r * p.row_x;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) to.put(c, from[c]);
  }
}

// A tile at a time goes through the first-level cache: read along x's neighbours, written along y's.
template <class T>
void transpose_rows(const GradOut<T>& y, const T* x, const Permute<T>& p, std::int64_t first, std::int64_t end) {
  T tile[kTile][kTile];
  for (std::int64_t left = 0; left < p.columns; left += kTile) {
    const std::int64_t height = end - first, width = std::min(kTile, p.columns - left);
    for (std::int64_t c = 0; c < width; ++c) {
      const T* from = x + (left + c) * p.column_x + first;
      for (std::int64_t r = 0; r < height; ++r) tile[r][c] = from[r];
    }
    for (std::int64_t r = 0; r < height; ++r) {
      const GradOut<T> to{y.data + (first + r) * p.row_y + left, y.mode};
      for (std::int64_t c = 0; c < width; ++c) to.put(c, tile[r][c]);
    }
  }
}

}  // namespace

template <class T>
void permute_cpu(const Permute<T>& p) {
  const std::int64_t strips = (p.rows + kTile - 1) / kTile;
#pragma omp parallel for schedule(static) if (p.matrices * p.rows * p.columns >= kParallelElements)
  for (std::int64_t i = 0; i < p.matrices * strips; ++i) {
    std::int64_t in_x, in_y;
    p.start(i / strips, in_x, in_y);
    const std::int64_t first = i % strips * kTile, end = std::min(p.rows, first + kTile);
    const GradOut<T> y{p.y.data + in_y, p.y.mode};
    p.column_x == 1 ? copy_rows(y, p.x + in_x, p, first, end) : transpose_rows(y, p.x + in_x, p, first, end);
  }
}

template void permute_cpu(const Permute<float>&);
template void permute_cpu(const Permute<double>&);
template void permute_cpu(const Permute<bf16>&);

}  // namespace foldgrad
