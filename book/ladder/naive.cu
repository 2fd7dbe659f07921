// Rung 1: one thread per element of C, which walks along a row of A and down a column of B.
#include "book/ladder/ladder.h"
#include "engine/cuda/pack.h"

namespace foldgrad::ladder {
namespace {

constexpr int kRows = 8, kColumns = 32;  // elements of C per block; a warp computes 32 neighbours in a row

__global__ void naive_kernel(Product<float> g) {
  const std::int64_t i = std::int64_t(blockIdx.x) * kRows + threadIdx.y;
  const std::int64_t j = std::int64_t(blockIdx.y) * kColumns + threadIdx.x;
  const bool inside = i < g.m && j < g.n;
  float sum = 0;
  for (std::int64_t p = 0; p < g.k; ++p) {
    const float a = load_pack<1>(g.a + i * g.k + p, inside).v[0];  // the same for the whole warp
    const float b = load_pack<1>(g.b + p * g.n + j, inside).v[0];  // 32 neighbours
    sum += a * b;
  }
  store_pack(g.c + i * g.n + j, Pack<float, 1>{{sum}}, inside);
}

}  // namespace

void naive_cuda(const Product<float>& g) {
  check("naive", g);
  launch("ladder: naive", naive_kernel, {{blocks_for(g.m, kRows), blocks_for(g.n, kColumns)}, dim3(kColumns, kRows)},
         g);
}

}  // namespace foldgrad::ladder
