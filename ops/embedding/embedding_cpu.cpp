#include <algorithm>
#include <utility>

#include "engine/cpu/rows.h"
#include "engine/memory.h"
#include "ops/embedding/embedding_kernels.h"

namespace foldgrad {
namespace {

// Sorts the positions by id, then by position, into `order`. The positions of row v end at ends[v]. Leaves out padding
// and unknown ids.
template <class T>
void sort_positions(const EmbeddingBackward<T>& p, int* ends, int* order) {
  std::fill_n(ends, p.rows, 0);
  for (std::int64_t m = 0; m < p.positions; ++m)
    if (p.counts(p.ids[m])) ++ends[p.ids[m]];
  int start = 0;
  for (std::int64_t v = 0; v < p.rows; ++v) start += std::exchange(ends[v], start);
  for (std::int64_t m = 0; m < p.positions; ++m)
    if (p.counts(p.ids[m])) order[ends[p.ids[m]]++] = int(m);
}

// Sums the rows of dy at n positions and puts the sum into row `row` of dx. Handles kColumns columns at a time, so that
// their sums (in compute_t) stay in registers.
template <class T>
void add_row(const EmbeddingBackward<T>& p, std::int64_t row, const int* positions, int n) {
  using Value = compute_t<T>;
  constexpr std::int64_t kColumns = 64;
  for (std::int64_t first = 0; first < p.columns; first += kColumns) {
    const std::int64_t width = std::min(kColumns, p.columns - first);
    Value sums[kColumns] = {};
    for (int i = 0; i < n; ++i) {
      const T* dy = p.dy + positions[i] * p.columns + first;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) sums[c] += Value(dy[c]);
    }
    const EmbeddingBackward<T> local = p;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) local.put(row, first + c, sums[c]);
  }
}

}  // namespace

template <class T>
void embedding_cpu(const EmbeddingForward<T>& p) {
  for_rows_cpu(p.positions, p.columns, [&p](std::int64_t m) {
    const EmbeddingForward<T> local = p;
    const std::int64_t id = p.ids[m];
    T* y = p.y + m * p.columns;
#pragma omp simd
    for (std::int64_t c = 0; c < local.columns; ++c) y[c] = T(local.value(id, c));
  });
}

template <class T>
void embedding_cpu(const EmbeddingBackward<T>& p) {
  const auto scratch = memory::allocate(Device::cpu, std::size_t(p.rows + p.positions) * sizeof(int));
  int *ends = static_cast<int*>(scratch.get()), *order = ends + p.rows;
  sort_positions(p, ends, order);
  // Most vocabularies begin with the frequent words, so we divide the rows into parts of equal work, not into equal
  // numbers of rows. The work of row v is one write plus its additions. A part consists of the rows at which the sum of
  // all earlier work is in the part's range.
  const auto begin_of = [ends](std::int64_t v) { return v == 0 ? 0 : ends[v - 1]; };
  const auto first_row = [begin_of, &p](std::int64_t work) {
    std::int64_t first = 0, last = p.rows;
    while (first < last) {
      const std::int64_t v = (first + last) / 2;
      if (v + begin_of(v) < work)
        first = v + 1;
      else
        last = v;
    }
    return first;
  };
  parallel_ranges(p.rows + p.positions, p.columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = first_row(begin), last = first_row(end); v < last; ++v) {
      const int n = ends[v] - begin_of(v);
      if (n > 0 || p.dx.mode == GradMode::set) add_row(p, v, order + begin_of(v), n);
    }
  });
}

FOLDGRAD_INSTANTIATE(embedding_cpu, EmbeddingForward);
FOLDGRAD_INSTANTIATE(embedding_cpu, EmbeddingBackward);

}  // namespace foldgrad
