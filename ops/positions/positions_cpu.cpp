#include "engine/cpu/rows.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {

template <class T>
void positions_cpu(const PositionsForward<T>& p) {
  for_rows_cpu(p.batch * p.length, p.columns, [&p](std::int64_t r) {
    const PositionsForward<T> local = p;
    const std::int64_t position = p.position(r, r % p.length);
    const T *x = p.x + r * p.columns, *row = p.table + position * p.columns;
    T* y = p.y + r * p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c) y[c] = T(local.sum(x[c], row[c], position));
  });
}

FOLDGRAD_INSTANTIATE(positions_cpu, PositionsForward);

}  // namespace foldgrad
