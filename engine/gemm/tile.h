// A tile of C = A B that stays in registers while its terms are summed: 14 rows of 2 vectors with AVX-512, otherwise 6
// rows of 2 vectors. Each loaded number of A is multiplied by 2 vectors, and each vector of B by 14 or 6 numbers.
//
// Include this header only in files that are compiled with -ffp-contract=fast (NAME_fma.cpp). Elsewhere a
// multiplication and an addition are two instructions, which halves the speed.
#pragma once
#include "engine/cpu/vector.h"

namespace foldgrad {

// A tile's sums take 28 of the 32 registers with AVX-512, otherwise 12 of 16. The other registers hold vectors of B and
// an element of A. Two FMA units with a latency of four cycles need at least 8 sums to stay busy.
constexpr int kTileRows = kVectorBytes == 64 ? 14 : 6;
constexpr int kTileVectors = 2;

// The computation of a tile: c = A B, or c += A B if `add` is true. A(i, t) is at a[i * a_row + t * a_term].
template <class V>
struct Tile {
  V* c;
  const V *a, *b;
  std::int64_t c_row, a_row, a_term, b_row;  // strides: distance in elements from one row or term to the next
  std::int64_t terms;
  bool add;
};

// The loops over a tile must be unrolled: otherwise `sums` is an array in memory.
template <class V, int kRows, int kVectors>
void multiply_whole_tile(const Tile<V>& tile) {
  V* const c = tile.c;
  const V* b = tile.b;
  const std::int64_t c_row = tile.c_row, a_row = tile.a_row, a_term = tile.a_term, b_row = tile.b_row;
  const std::int64_t terms = tile.terms;
  const bool add = tile.add;
  constexpr int kGroup = 3;  // rows that share a pointer: an x86 address can add 0, 1 or 2 row strides
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

// Computes a tile of at most kRows rows and kVectors vectors.
template <class V, int kRows = kTileRows, int kVectors = kTileVectors>
void multiply_tile(const Tile<V>& tile, std::int64_t rows, std::int64_t vectors) {
  if constexpr (kRows > 1)
    if (rows < kRows) return multiply_tile<V, kRows - 1, kVectors>(tile, rows, vectors);
  if constexpr (kVectors > 1)
    if (vectors < kVectors) return multiply_tile<V, kRows, kVectors - 1>(tile, rows, vectors);
  multiply_whole_tile<V, kRows, kVectors>(tile);
}

}  // namespace foldgrad
