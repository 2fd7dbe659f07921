// Rung 3: each thread keeps 8 x 8 elements of C in registers. So threads read shared memory a quarter as often, and a
// block's tiles are four times as high and wide.
#include "book/ladder/register_tile.h"

namespace foldgrad::ladder {
namespace {

__device__ void load_tiles(const SharedArray<float>& tiles, const Product<float>& g, std::int64_t first_i,
                           std::int64_t first_j, std::int64_t first_p) {
  FOLDGRAD_UNROLL_BY_4
  for (int s = 0; s < kTileB / kThreads; ++s) {
    const int e = s * kThreads + int(threadIdx.x);
    const std::int64_t i = first_i + e / kDepth, pa = first_p + e % kDepth;
    const std::int64_t pb = first_p + e / kTile, j = first_j + e % kTile;
    tiles[e] = load_pack<1>(g.a + i * g.k + pa, i < g.m && pa < g.k).v[0];
    tiles[kTileB + e] = load_pack<1>(g.b + pb * g.n + j, pb < g.k && j < g.n).v[0];
  }
}

__global__ void __launch_bounds__(kThreads, 2) registers_kernel(Product<float> g) {
  const SharedArray<float> tiles = shared_array<float>();
  const std::int64_t first_i = std::int64_t(blockIdx.x) * kTile, first_j = std::int64_t(blockIdx.y) * kTile;
  RegisterTile mine;
  for (std::int64_t p = 0; p < g.k; p += kDepth) {
    load_tiles(tiles, g, first_i, first_j, p);
    __syncthreads();
    mine.add_products(tiles, 0);
    __syncthreads();
  }
  mine.store(g, first_i, first_j);
}

}  // namespace

void registers_cuda(const Product<float>& g) {
  check("registers", g);
  launch("ladder: registers", registers_kernel,
         {{blocks_for(g.m, kTile), blocks_for(g.n, kTile)}, dim3(kThreads), kTiles * sizeof(float)}, g);
}

}  // namespace foldgrad::ladder
