#include "engine/cpu/rows.h"
#include "ops/cross_entropy/cross_entropy_kernels.h"

namespace foldgrad {
namespace {

template <class T>
void backward_row(const CrossEntropyBackward<T>& p, std::int64_t r) {
  using Value = compute_t<T>;
  const std::int64_t columns = p.columns;
  const GradOut<T> dz{p.dlogits.data + r * columns, p.dlogits.mode};
  if (!p.targets.counts(r)) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) dz.put(c, 0);
    return;
  }
  const T* z = p.logits + r * columns;
  const Value m = p.max[r], sum_inverse = Value(1) / p.sum[r], weight = *p.dloss * *p.weight;
  const auto put = [=](std::int64_t begin, std::int64_t end, Value q) {
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c)
      dz.put(c, cross_entropy_math::dz(cross_entropy_math::exponential(Value(z[c]), m), sum_inverse, q, weight));
  };
  const std::int64_t target = p.targets.first[r], other = p.targets.second ? p.targets.second[r] : target;
  const std::int64_t low = std::min(target, other), high = std::max(target, other);
  put(0, low, p.q.rest);
  put(low, low + 1, p.q_of(r, low));
  if (low < high) {
    put(low + 1, high, p.q.rest);
    put(high, high + 1, p.q_of(r, high));
  }
  put(high + 1, columns, p.q.rest);
}

}  // namespace

template <class T>
void cross_entropy_cpu(const CrossEntropyBackward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) { backward_row(p, r); });
}

FOLDGRAD_INSTANTIATE(cross_entropy_cpu, CrossEntropyBackward);

}  // namespace foldgrad
