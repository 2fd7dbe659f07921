// The suffix _fma means that this file is compiled with -ffp-contract=fast (engine/cpu/vector.h).
#include <algorithm>

#include "engine/cpu/transpose.h"
#include "engine/gemm/tile.h"
#include "ops/attention/attention_gemm.h"

namespace foldgrad {

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
      multiply_tile<V>({.c = g.c + row * g.c_row + v * kLanes<V>,
                        .a = g.a + row * g.a_row + first * g.a_term,
                        .b = g.b + first * g.b_row + v * kLanes<V>,
                        .c_row = g.c_row,
                        .a_row = g.a_row,
                        .a_term = g.a_term,
                        .b_row = g.b_row,
                        .terms = last - first,
                        .add = g.add},
                       end - row, std::min<std::int64_t>(kTileVectors, vectors - v));
  }
}

template <class V>
void small_transpose(V* to, const V* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns) {
  const std::int64_t to_row = padded<V>(rows);
  for (std::int64_t c = 0; c < columns; c += kLanes<V>)
    for (std::int64_t r = 0; r < rows; r += kLanes<V>)
      transpose_square(to + c * to_row + r, to_row, from + r * from_row + c, from_row, rows - r);
}

template void small_gemm(const SmallGemm<float>&);
template void small_gemm(const SmallGemm<double>&);
template void small_transpose(float*, const float*, std::int64_t, std::int64_t, std::int64_t);
template void small_transpose(double*, const double*, std::int64_t, std::int64_t, std::int64_t);

}  // namespace foldgrad
