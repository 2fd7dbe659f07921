// Transposes matrices of bf16. oneDNN multiplies by rows that lie together several times as fast as by columns of a
// wider matrix, which parts of A^T are.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/dtype.h"

namespace foldgrad {
namespace transpose_bf16_tiles {

constexpr int kTile = 32;
using Row = std::uint16_t __attribute__((vector_size(2 * kTile)));

// Exchanges the upper right and the lower left quarter of each block of 2 x 2 quarters, whose sides are kSide elements:
// of two rows that are kSide apart, columns with that bit of the one and without it of the other.
template <int kSide, int... j>
void exchange(Row& upper, Row& lower, std::integer_sequence<int, j...>) {
  const Row a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, (j & kSide ? kTile + j - kSide : j)...);
  lower = __builtin_shufflevector(a, b, (j & kSide ? kTile + j : j + kSide)...);
}

template <int kSide>
void exchange_all(Row (&rows)[kTile]) {
#pragma GCC unroll 32
  for (int i = 0; i < kTile; ++i)
    if (!(i & kSide)) exchange<kSide>(rows[i], rows[i + kSide], std::make_integer_sequence<int, kTile>());
}

inline void transpose_tile(const bf16* from, std::int64_t from_row, bf16* to, std::int64_t to_row) {
  Row rows[kTile];
  for (int i = 0; i < kTile; ++i) std::memcpy(&rows[i], from + i * from_row, sizeof(Row));
  exchange_all<16>(rows);
  exchange_all<8>(rows);
  exchange_all<4>(rows);
  exchange_all<2>(rows);
  exchange_all<1>(rows);
  for (int i = 0; i < kTile; ++i) std::memcpy(static_cast<void*>(to + i * to_row), &rows[i], sizeof(Row));
}

}  // namespace transpose_bf16_tiles

// Stores to[c, r] = from[r, c] for all rows and columns of `from`, whose rows are `from_row` elements apart. `to` is
// dense.
inline void transpose_bf16(const bf16* from, std::int64_t rows, std::int64_t columns, std::int64_t from_row, bf16* to) {
  using transpose_bf16_tiles::kTile;
  for (std::int64_t c = 0; c < columns; c += kTile)
    for (std::int64_t r = 0; r < rows; r += kTile) {
      const bf16* tile = from + r * from_row + c;
      if (r + kTile <= rows && c + kTile <= columns) {
        transpose_bf16_tiles::transpose_tile(tile, from_row, to + c * rows + r, rows);
        continue;
      }
      for (std::int64_t i = 0; i < kTile && c + i < columns; ++i)
        for (std::int64_t j = 0; j < kTile && r + j < rows; ++j) to[(c + i) * rows + r + j] = tile[j * from_row + i];
    }
}

}  // namespace foldgrad
