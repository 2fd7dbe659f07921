// A tile of C = A B that stays in registers while its terms are summed: 14 rows of 2 vectors with AVX-512, 6 of 2
// elsewhere. So each number of A that is loaded has 2 vectors of multiplications to do, and each vector of B 14.
//
// For files that are compiled with -ffp-contract=fast (NAME_fma.cpp): elsewhere a multiplication and an addition are
// two instructions, and half of the machine's speed is lost.
#pragma once
#include "engine/cpu/vector.h"

namespace foldgrad {

// The registers of a tile's sums: 28 of the 32 that AVX-512 has, 12 of 16 elsewhere. The others hold B and an element
// of A. Two units need 8 sums, since a result takes four cycles.
constexpr int kTileRows = kVectorBytes == 64 ? 14 : 6;
constexpr int kTileVectors = 2;

// c = A B, or c += A B, of a tile. A(i, t) is at a[i * a_row + t * a_term].
template <class V>
struct Tile {
  V* c;
  const V *a, *b;
  std::int64_t c_row, a_row, a_term, b_row;  // elements from one row or term to the next
  std::int64_t terms;
  bool add;
};

// The loops over a tile are unrolled, or `sums` would be an array in memory.
template <class V, int kRows, int kVectors>
void multiply_whole_tile(const Tile<V>& tile) {
  V* const c = tile.c;
  const V* b = tile.b;
  const std::int64_t c_row = tile.c_row, a_row = tile.a_row, a_term = tile.a_term, b_row = tile.b_row;
  const std::int64_t terms = tile.terms;
  const bool add = tile.add;
  constexpr int kGroup = 3;  // rows that are found from one pointer: x86 adds a register once, twice or not at all
  const V* a[(kRows + kGroup - 1) / kGroup];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; i += kGroup) a[i / kGroup] = tile.a + i * a_row;
  Vector<V> sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      __builtin_prefetch(c + i * c_row + j * kLanes<V>, /*to be written*/ 1);
      sums[i][j] = Vector<V>{};
    }
  for (std::int64_t t = 0; t < terms; ++t, b += b_row) {
    Vector<V> b_t[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) b_t[j] = load(b + j * kLanes<V>);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j) sums[i][j] += a[i / kGroup][i % kGroup * a_row] * b_t[j];
#pragma GCC unroll 16
    for (const V*& rows : a) rows += a_term;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      V* to = c + i * c_row + j * kLanes<V>;
      store(to, add ? load(to) + sums[i][j] : sums[i][j]);
    }
}

// Multiplies a tile of at most kRows rows and kVectors vectors.
template <class V, int kRows = kTileRows, int kVectors = kTileVectors>
void multiply_tile(const Tile<V>& tile, std::int64_t rows, std::int64_t vectors) {
  if constexpr (kRows > 1)
    if (rows < kRows) return multiply_tile<V, kRows - 1, kVectors>(tile, rows, vectors);
  if constexpr (kVectors > 1)
    if (vectors < kVectors) return multiply_tile<V, kRows, kVectors - 1>(tile, rows, vectors);
  multiply_whole_tile<V, kRows, kVectors>(tile);
}

// Does one step of the transposition of a square of vectors, and those after it: where just one of row and column has
// the bit kBit, entries (row, column) and (column, row) of each pair of rows change places.
template <class V, int kBit>
[[gnu::always_inline]] inline void exchange_entries(Vector<V> (&x)[kLanes<V>]) {
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
  if constexpr (2 * kBit < kLanes<V>) exchange_entries<V, 2 * kBit>(x);
}

// Stores the transpose of a square, times a factor: to[t * to_row + l] = factor * from[l * from_row + t], zeros for
// l >= lines.
template <class V>
[[gnu::always_inline]] inline void transpose_square(V* to, std::int64_t to_row, const V* from, std::int64_t from_row,
                                                    std::int64_t lines, V factor = 1) {
  Vector<V> x[kLanes<V>];
  for (int l = 0; l < kLanes<V>; ++l) x[l] = l < lines ? load(from + l * from_row) : Vector<V>{};
  exchange_entries<V, 1>(x);
  for (int t = 0; t < kLanes<V>; ++t) store(to + t * to_row, factor * x[t]);
}

}  // namespace foldgrad
