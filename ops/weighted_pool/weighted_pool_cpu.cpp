#include "engine/cpu/rows.h"
#include "ops/weighted_pool/weighted_pool_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // number of columns whose sums stay in registers

// Computes columns [first, first + width) of y_b, where `width` is at most kChunk.
template <class T>
void pool(const WeightedPoolForward<T>& p, std::int64_t b, std::int64_t first, std::int64_t width) {
  using Value = compute_t<T>;
  Value sums[kChunk] = {};
  for (std::int64_t t = 0; t < p.steps; ++t) {
    const T* x = p.x + (b * p.steps + t) * p.columns + first;
    const Value w = p.weight(b * p.steps + t);
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) sums[c] += w * Value(x[c]);  // [WP-1]
  }
  const Value factor = p.factor;
  T* y = p.y + b * p.columns + first;
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = T(sums[c] * factor);  // [RED-3]
}

}  // namespace

template <class T>
void weighted_pool_cpu(const WeightedPoolForward<T>& p) {
  for_rows_cpu(p.batch, p.steps * p.columns, [&p](std::int64_t b) {
    for (std::int64_t c = 0; c < p.columns; c += kChunk) pool(p, b, c, std::min(kChunk, p.columns - c));
  });
}
template <class T>
void weighted_pool_cpu(const WeightedPoolBackward<T>& p) {
  using Value = compute_t<T>;
  for_rows_cpu(p.batch * p.steps, p.columns, [&p](std::int64_t row) {
    const WeightedPoolBackward<T> local = p;
    const std::int64_t b = row / p.steps;
    const T* dy = p.dy + b * p.columns;
    if (local.dw)
      local.dw.put(row, sum_cpu<Value>(p.columns, [=, x = p.x + row * p.columns](std::int64_t c) {
                     return local.share_of_dw(dy[c], x[c]);
                   }));
    if (!local.dx) return;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c) local.dx.put(row * local.columns + c, local.dx_of(row, dy[c]));
  });
}

FOLDGRAD_INSTANTIATE(weighted_pool_cpu, WeightedPoolForward);
FOLDGRAD_INSTANTIATE(weighted_pool_cpu, WeightedPoolBackward);

}  // namespace foldgrad
