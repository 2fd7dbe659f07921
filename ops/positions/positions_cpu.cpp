#include "engine/memory.h"
#include "ops/positions/positions_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kParallelElements = 32768;

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
#pragma omp parallel for schedule(static) if (rows * p.columns >= kParallelElements)
  for (std::int64_t r = 0; r < rows; ++r) {
    const PositionsForward<T> local = p;
    const std::int64_t position = positions[r];
    T* y = p.y + r * p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c) y[c] = T(local.value(r, position, c));
  }
}

FOLDGRAD_INSTANTIATE(positions_cpu, PositionsForward);

}  // namespace foldgrad
