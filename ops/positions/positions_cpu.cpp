#include "engine/cpu/column_sums.h"
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
      if (!p.mask)
        positions[r] = t;  // [POS-4]
      else
        positions[r] = kPaddingPosition + (p.mask[r] ? ++tokens : 0);  // [POS-2]
    }
  }
}

}  // namespace

template <class T>
void positions_cpu(const PositionsForward<T>& p) {
  using Value = compute_t<T>;
  const std::int64_t rows = p.batch * p.length;
  const auto scratch = memory::allocate(Device::cpu, std::size_t(rows) * sizeof(std::int64_t));
  std::int64_t* positions = static_cast<std::int64_t*>(scratch.get());
  count_positions(p, positions);
#pragma omp parallel for schedule(static) if (rows * p.columns >= kParallelElements)
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t columns = p.columns;
    const T *x = p.x + r * columns, *table = p.table + positions[r] * columns;
    T* y = p.y + r * columns;
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) y[c] = T(Value(x[c]) + Value(table[c]));  // [POS-3]
  }
}

template <class T>
void positions_cpu(const PositionsBackward<T>& p) {
  column_sums_cpu(p);
}

template void positions_cpu(const PositionsForward<float>&);
template void positions_cpu(const PositionsForward<double>&);
template void positions_cpu(const PositionsForward<bf16>&);
template void positions_cpu(const PositionsBackward<float>&);
template void positions_cpu(const PositionsBackward<double>&);
template void positions_cpu(const PositionsBackward<bf16>&);

}  // namespace foldgrad
