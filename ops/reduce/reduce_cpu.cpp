#include "engine/cpu/rows.h"
#include "ops/reduce/reduce_kernels.h"

namespace foldgrad {

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

FOLDGRAD_INSTANTIATE(reduce_cpu, SumForward);

}  // namespace foldgrad
