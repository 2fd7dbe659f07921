#include "engine/cpu/rows.h"
#include "engine/memory.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {
namespace {

// positions: [batch, length].
template <class T>
void count_positions(const PositionsForward<T>& p, std::int64_t* positions) {
  for (std::int64_t b = 0; b < p.batch; ++b) {
    std::int64_t tokens = 0;
    for (std::int64_t t = 0; t < p.length; ++t) {
      const std::int64_t r = b * p.length + t;
      tokens += p.mask && p.mask[r];
      positions[r] = p.position(r, t, tokens);
    }
  }
}

}  // namespace

template <class T>
void positions_cpu(const PositionsForward<T>& p) {
  const std::int64_t rows = p.batch * p.length;
  const auto scratch = memory::allocate(Device::cpu, std::size_t(rows) * sizeof(std::int64_t));
  std::int64_t* positions = static_cast<std::int64_t*>(scratch.get());
  count_positions(p, positions);
  for_rows_cpu(rows, p.columns, [&p, positions](std::int64_t r) {
    const PositionsForward<T> local = p;
    const std::int64_t position = positions[r];
    const T *x = p.x + r * p.columns, *row = p.table + position * p.columns;
    T* y = p.y + r * p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c) y[c] = T(local.sum(x[c], row[c], position));
  });
}

template <class T>
void positions_cpu(const PositionsBackward<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) {
    const std::int64_t begin = r * p.columns;
    write_cpu(p.dx, begin, begin + p.columns, bypasses_cache<T>(p.rows * p.columns),
              [local = p, r](std::int64_t i) { return local.value(r, i); });
  });
}

FOLDGRAD_INSTANTIATE(positions_cpu, PositionsForward);
FOLDGRAD_INSTANTIATE(positions_cpu, PositionsBackward);

}  // namespace foldgrad
