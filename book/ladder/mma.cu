// Rung 5: tensor cores multiply bf16, 16 x 16 by 16 x 8 numbers at a time. Tiles are copied as on rung 4, but with one
// more stage in flight, since the computation takes less time.
#include "book/ladder/copies.h"
#include "engine/cuda/pack.h"
#include "engine/cuda/tensor_core.h"

namespace foldgrad::ladder {
namespace {

// Each of 2 x 4 warps computes 64 x 32 of the block's kTile x kTile elements of C: 4 x 4 fragments of 16 x 8. A gap of
// 16 bytes puts the 8 rows that ldmatrix reads at once into different banks.
constexpr int kTile = 128, kDepth = 32, kThreads = 256, kStages = 3, kFragments = 4;
using Stage = Tiles<bf16, kTile, kDepth, 8>;

// Adds the products of one step. a and b point to the rows of the warp's parts of A and B that this lane passes to
// ldmatrix.
__device__ void add_products(FragmentC (&sums)[kFragments][kFragments], const bf16* a, const bf16* b) {
  FOLDGRAD_UNROLL
  for (int p = 0; p < kDepth; p += 16) {
    FragmentA left[kFragments];
    FOLDGRAD_UNROLL
    for (int u = 0; u < kFragments; ++u) load_matrices(left[u].r, a + 16 * u * Stage::kRowA + p);
    FOLDGRAD_UNROLL
    for (int v = 0; v < kFragments; v += 2) {
      std::uint32_t right[4];  // two fragments
      load_matrices_transposed(right, b + p * Stage::kRowB + 8 * v);
      FOLDGRAD_UNROLL
      for (int u = 0; u < kFragments; ++u) {
        mma(sums[u][v], left[u], FragmentB{{right[0], right[1]}});
        mma(sums[u][v + 1], left[u], FragmentB{{right[2], right[3]}});
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 2) mma_kernel(Product<bf16> g) {
  bf16* stages = dynamic_shared<bf16>();  // [kStages, Stage::kSize]
  const std::int64_t first_i = std::int64_t(blockIdx.x) * kTile, first_j = std::int64_t(blockIdx.y) * kTile;
  const int lane = int(threadIdx.x) % 32, warp_i = int(threadIdx.x) / 128 * 64, warp_j = int(threadIdx.x) / 32 % 4 * 32;
  const bf16* a = stages + (warp_i + lane % 16) * Stage::kRowA + lane / 16 * 8;
  const bf16* b = stages + Stage::kB + lane % 16 * Stage::kRowB + warp_j + lane / 16 * 8;
  FragmentC sums[kFragments][kFragments] = {};
  for (int s = 0; s < kStages - 1; ++s) Stage::begin_copies(stages + s * Stage::kSize, g, first_i, first_j, s * kDepth);
  int now = 0, next = kStages - 1;
  for (std::int64_t p = 0; p < g.k; p += kDepth) {
    async_wait<kStages - 2>();
    __syncthreads();
    Stage::begin_copies(stages + next * Stage::kSize, g, first_i, first_j, p + (kStages - 1) * kDepth);
    add_products(sums, a + now * Stage::kSize, b + now * Stage::kSize);
    now = (now + 1) % kStages, next = (next + 1) % kStages;
  }
  FOLDGRAD_UNROLL
  for (int f = 0; f < 2 * kFragments * kFragments; ++f) {  // for the upper and the lower 8 rows of each fragment
    const int u = f / 2 / kFragments, v = f / 2 % kFragments, half = f % 2;
    const std::int64_t i = first_i + warp_i + 16 * u + 8 * half + lane / 4, j = first_j + warp_j + 8 * v + lane % 4 * 2;
    const float(&r)[4] = sums[u][v].r;
    store_pack(g.c + i * g.n + j, Pack<float, 2>{{r[2 * half], r[2 * half + 1]}}, i < g.m && j < g.n);
  }
}

}  // namespace

void mma_cuda(const Product<bf16>& g) {
  check("mma", g, Stage::kChunk);
  launch("ladder: mma", mma_kernel,
         {{blocks_for(g.m, kTile), blocks_for(g.n, kTile)}, dim3(kThreads), kStages * Stage::kSize * sizeof(bf16)}, g);
}

}  // namespace foldgrad::ladder
