#include <algorithm>

#include "book/ladder/cpu/cpu_ladder.h"
#include "engine/check.h"
#include "engine/gemm/tile.h"

namespace foldgrad::ladder {

// The loop over the terms is multiply_whole_tile() in engine/gemm/tile.h.
void registers_cpu(const Product<float>& g) {
  check("registers", g);
  FOLDGRAD_CHECK(g.n % kLanes<float> == 0, "ladder, registers: n must be a multiple of {}, got {}", kLanes<float>, g.n);
  for (std::int64_t i = 0; i < g.m; i += kTileRows)
    for (std::int64_t j = 0; j < g.n; j += kTileVectors * kLanes<float>) {
      const Tile<float> tile{.c = g.c + i * g.n + j,
                             .a = g.a + i * g.k,
                             .b = g.b + j,
                             .c_row = g.n,
                             .a_row = g.k,
                             .a_term = 1,
                             .b_row = g.n,
                             .terms = g.k,
                             .add = false};
      multiply_tile(tile, std::min<std::int64_t>(kTileRows, g.m - i),
                    std::min<std::int64_t>(kTileVectors, (g.n - j) / kLanes<float>));
    }
}

}  // namespace foldgrad::ladder
