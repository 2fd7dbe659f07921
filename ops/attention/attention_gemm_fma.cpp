// The suffix _fma means -ffp-contract=fast; without it half of the machine's speed is lost.
#include <algorithm>

#include "ops/attention/attention_gemm.h"

namespace foldgrad {
namespace {

// A tile of C stays in registers: at most 6 rows of 4 of AVX-512's 32 vectors, elsewhere of 2 vectors. Even a tile of 2
// x 4 keeps two units busy whose results take four cycles.
constexpr int kTileRows = 6;
constexpr int kTileVectors = kVectorBytes == 64 ? 4 : 2;

template <class V, int kRows, int kVectors>
void tile(const SmallGemm<V>& g, std::int64_t row, std::int64_t column, std::int64_t first, std::int64_t last) {
  Vector<V> c[kRows][kVectors];
  for (auto& c_row : c)
    for (Vector<V>& sums : c_row) sums = Vector<V>{};
  const V* a = g.a + row * g.a_row + first * g.a_term;
  const V* b = g.b + first * g.b_row + column;
  const std::int64_t a_row = g.a_row, a_term = g.a_term, b_row = g.b_row;
  for (std::int64_t t = first; t < last; ++t, a += a_term, b += b_row) {
    Vector<V> b_t[kVectors];
    for (int j = 0; j < kVectors; ++j) b_t[j] = load(b + j * kLanes<V>);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kVectors; ++j) c[i][j] += a[i * a_row] * b_t[j];
  }
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) {
      V* to = g.c + (row + i) * g.c_row + column + j * kLanes<V>;
      store(to, g.add ? load(to) + c[i][j] : c[i][j]);
    }
}

template <class V>
using Tile = void (*)(const SmallGemm<V>&, std::int64_t, std::int64_t, std::int64_t, std::int64_t);

template <class V, int kRows, int kVectors>
constexpr Tile<V> tile_of(int rows, int vectors) {
  if constexpr (kRows > 1)
    if (rows < kRows) return tile_of<V, kRows - 1, kVectors>(rows, vectors);
  if constexpr (kVectors > 1)
    if (vectors < kVectors) return tile_of<V, kRows, kVectors - 1>(rows, vectors);
  return tile<V, kRows, kVectors>;
}

// One step of transposing a square of vectors; calls the later steps. If exactly one of row and column has the bit
// kBit, swaps entries (row, column) and (column, row).
template <class V, int kBit>
void exchange(Vector<V> (&x)[kLanes<V>]) {
  VectorOrder<V> low, high;
  for (int l = 0; l < kLanes<V>; ++l) {
    low[l] = l & kBit ? kLanes<V> + l - kBit : l;
    high[l] = l & kBit ? kLanes<V> + l : l + kBit;
  }
  for (int i = 0; i < kLanes<V>; ++i) {
    if (i & kBit) continue;
    const Vector<V> a = x[i], b = x[i + kBit];
    x[i] = __builtin_shuffle(a, b, low);
    x[i + kBit] = __builtin_shuffle(a, b, high);
  }
  if constexpr (2 * kBit < kLanes<V>) exchange<V, 2 * kBit>(x);
}

}  // namespace

template <class V>
void small_gemm(const SmallGemm<V>& g) {
  const std::int64_t row_tiles = (g.m + kTileRows - 1) / kTileRows;
  for (std::int64_t r = 0; r < row_tiles; ++r) {
    const std::int64_t row = g.m * r / row_tiles, end = g.m * (r + 1) / row_tiles;  // rows are divided evenly
    std::int64_t columns = g.n, first = 0, last = g.k;
    if (g.causal == Causal::columns) columns = std::clamp<std::int64_t>(end + g.diagonal, 0, g.n);
    if (g.causal == Causal::terms) last = std::clamp<std::int64_t>(end + g.diagonal, 0, g.k);
    if (g.causal == Causal::first_terms) first = std::clamp<std::int64_t>(row - g.diagonal, 0, g.k);
    const std::int64_t vectors = padded<V>(columns) / kLanes<V>;
    for (std::int64_t v = 0; v < vectors; v += kTileVectors)
      tile_of<V, kTileRows, kTileVectors>(int(end - row), int(std::min<std::int64_t>(kTileVectors, vectors - v)))(
          g, row, v * kLanes<V>, first, last);
  }
}

template <class V>
void small_transpose(V* to, const V* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns) {
  const std::int64_t to_row = padded<V>(rows);
  for (std::int64_t c = 0; c < columns; c += kLanes<V>)
    for (std::int64_t r = 0; r < rows; r += kLanes<V>) {
      Vector<V> x[kLanes<V>];
      for (int i = 0; i < kLanes<V>; ++i) x[i] = r + i < rows ? load(from + (r + i) * from_row + c) : Vector<V>{};
      exchange<V, 1>(x);
      for (int i = 0; i < kLanes<V>; ++i) store(to + (c + i) * to_row + r, x[i]);
    }
}

template void small_gemm(const SmallGemm<float>&);
template void small_gemm(const SmallGemm<double>&);
template void small_transpose(float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void small_transpose(double*, const double*, std::int64_t, std::int64_t, std::int64_t);

}  // namespace foldgrad
