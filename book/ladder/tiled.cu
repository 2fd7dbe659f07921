// Rung 2: a block computes a tile of C from tiles of A and B in shared memory, where 32 threads use each number.
#include "book/ladder/ladder.h"
#include "engine/cuda/pack.h"

namespace foldgrad::ladder {
namespace {

constexpr int kTile = 32;              // rows and columns of the tiles; one thread per element
constexpr int kTileB = kTile * kTile;  // where the tile of B begins

__global__ void tiled_kernel(Product<float> g) {
  const SharedArray<float> tiles = shared_array<float>();
  const int x = int(threadIdx.x), y = int(threadIdx.y);
  const std::int64_t i = std::int64_t(blockIdx.x) * kTile + y, j = std::int64_t(blockIdx.y) * kTile + x;
  float sum = 0;
  for (std::int64_t first = 0; first < g.k; first += kTile) {
    const std::int64_t pa = first + x, pb = first + y;
    tiles[y * kTile + x] = load_pack<1>(g.a + i * g.k + pa, i < g.m && pa < g.k).v[0];
    tiles[kTileB + y * kTile + x] = load_pack<1>(g.b + pb * g.n + j, pb < g.k && j < g.n).v[0];
    __syncthreads();  // the tiles are complete
    FOLDGRAD_UNROLL
    for (int p = 0; p < kTile; ++p) sum += tiles[y * kTile + p] * tiles[kTileB + p * kTile + x];
    __syncthreads();  // no thread still reads the tiles
  }
  store_pack(g.c + i * g.n + j, Pack<float, 1>{{sum}}, i < g.m && j < g.n);
}

}  // namespace

void tiled_cuda(const Product<float>& g) {
  check("tiled", g);
  launch("ladder: tiled", tiled_kernel,
         {{blocks_for(g.m, kTile), blocks_for(g.n, kTile)}, dim3(kTile, kTile), 2 * kTile * kTile * sizeof(float)}, g);
}

}  // namespace foldgrad::ladder
