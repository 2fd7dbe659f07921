#include <algorithm>

#include "ops/concat/concat_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kParallelElements = 32768;
constexpr std::int64_t kChunk = 16384;  // so that one long row has work for every thread

// Columns [first, end) of one row.
template <class T>
void copy_part(const GradOut<T>& y, const T* x, const CopyRows<T>& p, std::int64_t first, std::int64_t end) {
  using Value = compute_t<T>;
  const std::int64_t begin = std::clamp(p.zeros_before, first, end),
                     stop = std::clamp(p.zeros_before + p.columns, first, end);
  for (std::int64_t c = first; c < begin; ++c) y.put(c, Value(0));
  const std::int64_t before = p.zeros_before;
#pragma omp simd
  for (std::int64_t c = begin; c < stop; ++c) y.put(c, x[c - before]);
  for (std::int64_t c = stop; c < end; ++c) y.put(c, Value(0));
}

}  // namespace

template <class T>
void copy_rows_cpu(const CopyRows<T>& p) {
  const std::int64_t width = p.width(), chunks = (width + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static) if (p.rows * width >= kParallelElements)
  for (std::int64_t i = 0; i < p.rows * chunks; ++i) {
    const std::int64_t r = i / chunks, first = i % chunks * kChunk;
    copy_part({p.y.data + r * p.row_y, p.y.mode}, p.x + r * p.row_x, p, first, std::min(width, first + kChunk));
  }
}

FOLDGRAD_INSTANTIATE(copy_rows_cpu, CopyRows);

}  // namespace foldgrad
