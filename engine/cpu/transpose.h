// Transposes square blocks of numbers in vector registers. A block of 4 rows takes two steps:
//
//   a b c d       a e c g       a e i m
//   e f g h  ->   b f d h  ->   b f j n      kBit = 1, then kBit = 2
//   i j k l       i m k o       c g k o
//   m n o p       j n l p       d h l p
#pragma once
#include <utility>

#include "engine/cpu/vector.h"

namespace foldgrad {

// Does one step for two rows that are kBit apart. Swaps the entries of `upper` in columns whose number has bit kBit set
// with the entries of `lower` in the columns whose number does not.
template <int kBit, class Row, int... l>
[[gnu::always_inline]] inline void exchange_entries(Row& upper, Row& lower, std::integer_sequence<int, l...>) {
  constexpr int n = sizeof...(l);
  const Row a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, (l & kBit ? n + l - kBit : l)...);
  lower = __builtin_shufflevector(a, b, (l & kBit ? n + l : l + kBit)...);
}

// Runs the step for kBit and all later steps.
template <class V, int kBit = 1>
[[gnu::always_inline]] inline void exchange_entries(Vector<V> (&rows)[kLanes<V>]) {
#pragma GCC unroll 32
  for (int i = 0; i < kLanes<V>; ++i)
    if (!(i & kBit)) exchange_entries<kBit>(rows[i], rows[i + kBit], std::make_integer_sequence<int, kLanes<V>>());
  if constexpr (2 * kBit < kLanes<V>) exchange_entries<V, 2 * kBit>(rows);
}

// Stores the transpose of a square block, times a factor: to[t * to_row + l] = factor * from[l * from_row + t]. Reads
// only the first `lines` rows of `from`; the remaining rows count as zeros.
template <class V>
[[gnu::always_inline]] inline void transpose_square(V* to, std::int64_t to_row, const V* from, std::int64_t from_row,
                                                    std::int64_t lines, V factor = 1) {
  Vector<V> x[kLanes<V>];
  for (int l = 0; l < kLanes<V>; ++l) x[l] = l < lines ? load(from + l * from_row) : Vector<V>{};
  exchange_entries<V>(x);
  for (int t = 0; t < kLanes<V>; ++t) store(to + t * to_row, factor * x[t]);
}

}  // namespace foldgrad
