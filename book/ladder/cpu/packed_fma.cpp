#include <algorithm>

#include "book/ladder/cpu/cpu_ladder.h"
#include "engine/check.h"
#include "engine/gemm/tile.h"
#include "engine/memory.h"

namespace foldgrad::ladder {

void packed_cpu(const Product<float>& g) {
  check("packed", g);
  FOLDGRAD_CHECK(g.n % kLanes<float> == 0, "ladder, packed: n must be a multiple of {}, got {}", kLanes<float>, g.n);
  constexpr std::int64_t kBlock = 512, kColumns = kTileVectors * kLanes<float>;
  if (g.k == 0) std::fill_n(g.c, g.m * g.n, 0.0f);
  const std::size_t bytes = std::size_t(kBlock * (g.n + kColumns)) * sizeof(float);
  const auto memory = memory::allocate(Device::cpu, bytes);
  float* packed = static_cast<float*>(memory.get());  // contains one panel of 32 columns after another
  for (std::int64_t block = 0; block < g.k; block += kBlock) {
    const std::int64_t terms = std::min(kBlock, g.k - block);
    for (std::int64_t j = 0; j < g.n; j += kColumns)
      for (std::int64_t p = 0; p < terms; ++p)
        std::copy_n(g.b + (block + p) * g.n + j, std::min(kColumns, g.n - j), packed + j * kBlock + p * kColumns);
    for (std::int64_t i = 0; i < g.m; i += kTileRows)
      for (std::int64_t j = 0; j < g.n; j += kColumns) {
        const Tile<float> tile{.c = g.c + i * g.n + j,
                               .a = g.a + i * g.k + block,
                               .b = packed + j * kBlock,
                               .c_row = g.n,
                               .a_row = g.k,
                               .a_term = 1,
                               .b_row = kColumns,
                               .terms = terms,
                               .add = block > 0};
        multiply_tile(tile, std::min<std::int64_t>(kTileRows, g.m - i),
                      std::min<std::int64_t>(kTileVectors, (g.n - j) / kLanes<float>));
      }
  }
}

}  // namespace foldgrad::ladder
