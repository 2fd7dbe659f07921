// Transposes by squares of vectors that stay in registers. A square of 4 rows, in two steps:
//
//   a b c d       a e c g       a e i m
//   e f g h  ->   b f d h  ->   b f j n      kBit = 1, then kBit = 2
//   i j k l       i m k o       c g k o
//   m n o p       j n l p       d h l p
#pragma once
#include "engine/cpu/vector.h"

namespace foldgrad {

// Exchanges entries (row, column) and (column, row) of each pair of rows that are kBit apart, if exactly one of row and
// column has the bit kBit. Then does the later steps.
template <class V, int kBit>
[[gnu::always_inline]] inline void exchange_entries(Vector<V> (&x)[kLanes<V>]) {
  VectorOrder<V> low, high;
  for (int l = 0; l < kLanes<V>; ++l) {
    low[l] = l & kBit ? kLanes<V> + l - kBit : l;
    high[l] = l & kBit ? kLanes<V> + l : l + kBit;
  }
#pragma GCC unroll 32
  for (int i = 0; i < kLanes<V>; ++i) {
    if (i & kBit) continue;
    const Vector<V> a = x[i], b = x[i + kBit];
    x[i] = __builtin_shuffle(a, b, low);
    x[i + kBit] = __builtin_shuffle(a, b, high);
  }
  if constexpr (2 * kBit < kLanes<V>) exchange_entries<V, 2 * kBit>(x);
}

// Stores the transpose of a square times a factor: to[t * to_row + l] = factor * from[l * from_row + t]. Rows of `from`
// from `lines` on are not read and count as zeros.
template <class V>
[[gnu::always_inline]] inline void transpose_square(V* to, std::int64_t to_row, const V* from, std::int64_t from_row,
                                                    std::int64_t lines, V factor = 1) {
  Vector<V> x[kLanes<V>];
  for (int l = 0; l < kLanes<V>; ++l) x[l] = l < lines ? load(from + l * from_row) : Vector<V>{};
  exchange_entries<V, 1>(x);
  for (int t = 0; t < kLanes<V>; ++t) store(to + t * to_row, factor * x[t]);
}

}  // namespace foldgrad
