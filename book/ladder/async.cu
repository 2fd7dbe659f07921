// Rung 4: cp.async loads the next tiles, 16 bytes at a time and without registers, while the threads compute.
#include "book/ladder/copies.h"
#include "book/ladder/register_tile.h"

namespace foldgrad::ladder {
namespace {

using Stage = Tiles<float, kTile, kDepth, 0>;
constexpr int kStages = 2;  // one stage to compute on, and one that is being loaded

__global__ void __launch_bounds__(kThreads, 2) async_kernel(Product<float> g) {
  float* stages = dynamic_shared<float>();  // [kStages, Stage::kSize]
  const std::int64_t first_i = std::int64_t(blockIdx.x) * kTile, first_j = std::int64_t(blockIdx.y) * kTile;
  RegisterTile mine;
  for (int s = 0; s < kStages - 1; ++s) Stage::begin_copies(stages + s * Stage::kSize, g, first_i, first_j, s * kDepth);
  int now = 0, next = kStages - 1;
  for (std::int64_t p = 0; p < g.k; p += kDepth) {
    async_wait<kStages - 2>();
    __syncthreads();  // these tiles are complete, and no thread still reads those of the previous step
    Stage::begin_copies(stages + next * Stage::kSize, g, first_i, first_j, p + (kStages - 1) * kDepth);
    mine.add_products(shared_array<float>(), now * Stage::kSize);
    now = (now + 1) % kStages, next = (next + 1) % kStages;
  }
  mine.store(g, first_i, first_j);
}

}  // namespace

void async_cuda(const Product<float>& g) {
  check("async", g, Stage::kChunk);
  launch("ladder: async", async_kernel,
         {{blocks_for(g.m, kTile), blocks_for(g.n, kTile)}, dim3(kThreads), kStages * Stage::kSize * sizeof(float)}, g);
}

}  // namespace foldgrad::ladder
