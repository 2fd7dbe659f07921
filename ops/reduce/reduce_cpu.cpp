#include "engine/cpu/rows.h"
#include "ops/reduce/reduce_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kChunk = 64;  // columns whose sums stay in registers

// Columns [begin, end), at most kChunk of them, of y_b.
template <class T>
void pool(const MeanPoolForward<T>& p, std::int64_t b, std::int64_t begin, std::int64_t end) {
  using Value = compute_t<T>;
  const std::int64_t width = end - begin;
  Value sums[kChunk] = {};
  for (std::int64_t t = 0; t < p.steps; ++t) {
    if (!p.counts(b, t)) continue;
    const T* x = p.x + (b * p.steps + t) * p.columns + begin;
    if (width == kChunk) {
#pragma omp simd
      for (std::int64_t c = 0; c < kChunk; ++c) sums[c] += Value(x[c]);
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) sums[c] += Value(x[c]);
    }
  }
  const Value weight = p.weight[b];
  T* y = p.y + b * p.columns + begin;
#pragma omp simd
  for (std::int64_t c = 0; c < width; ++c) y[c] = T(MeanPoolForward<T>::mean(sums[c], weight));
}

}  // namespace

template <class T>
void reduce_cpu(const SumForward<T>& p) {
  using Value = compute_t<T>;
#pragma omp parallel for schedule(static) if (p.n >= kParallelElements)
  for (std::int64_t part = 0; part < p.parts; ++part) {
    const T* x = p.x + p.begin(part);
    p.partials[part] = sum_cpu<Value>(p.begin(part + 1) - p.begin(part), [x](std::int64_t i) { return Value(x[i]); });
  }
  p.finish();
}
template <class T>
void reduce_cpu(const MeanPoolForward<T>& p) {
  for_rows_cpu(p.batch, p.steps * p.columns, [&p](std::int64_t b) {
    p.weight[b] = p.weight_of(b);
    for (std::int64_t c = 0; c < p.columns; c += kChunk) pool(p, b, c, std::min(c + kChunk, p.columns));
  });
}
template <class T>
void reduce_cpu(const MeanPoolBackward<T>& p) {
  for_rows_cpu(p.batch * p.steps, p.columns, [&p](std::int64_t row) {
    const MeanPoolBackward<T> local = p;
    const std::int64_t b = row / p.steps, t = row % p.steps;
    const compute_t<T> factor = p.factor(b, t);
    const T* dy = p.dy + b * p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c)
      local.dx.put(row * local.columns + c, MeanPoolBackward<T>::dx_of(dy[c], factor));
  });
}

FOLDGRAD_INSTANTIATE(reduce_cpu, SumForward);
FOLDGRAD_INSTANTIATE(reduce_cpu, MeanPoolForward);
FOLDGRAD_INSTANTIATE(reduce_cpu, MeanPoolBackward);

}  // namespace foldgrad
