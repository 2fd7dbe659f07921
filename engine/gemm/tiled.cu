// Our own matrix product for CUDA: the last fallback, and the only one under emulation. It is not tuned.
#include <algorithm>

#include "engine/cuda/launch.h"
#include "engine/gemm/backends.h"

namespace foldgrad {
namespace {

// A block computes kTile x kTile elements of C, and each of its threads kPerThread x kPerThread of them. In each step
// the threads share kDepth columns of op(A) and kDepth rows of op(B), so a block reads each value from global memory
// once.
constexpr int kTile = 32, kDepth = 16, kPerThread = 4, kSide = kTile / kPerThread, kThreads = kSide * kSide;
constexpr int kPitch = kTile + 1;  // one extra element puts a column's elements in different banks

template <class T, class C>
struct Tiled {
  C* c;
  const T *a, *b;
  Gemm g;  // resolved
};

// Sets tile[p][x] = source[(first_x + x) * stride_x + (first_p + p) * stride_p], and 0 outside [0, end_x) x [0, end_p).
// Neighbouring threads read along the axis of stride 1.
template <class T>
__device__ void load_tile(compute_t<T>* tile, const T* source, std::int64_t first_x, std::int64_t end_x,
                          std::int64_t stride_x, std::int64_t first_p, std::int64_t end_p, std::int64_t stride_p) {
  for (int e = threadIdx.x; e < kTile * kDepth; e += kThreads) {
    const int x = stride_x == 1 ? e % kTile : e / kDepth, p = stride_x == 1 ? e / kTile : e % kDepth;
    const bool inside = first_x + x < end_x && first_p + p < end_p;
    tile[p * kPitch + x] =
        inside ? compute_t<T>(source[(first_x + x) * stride_x + (first_p + p) * stride_p]) : compute_t<T>(0);
  }
}

// Adds to sum[u][v] the terms of the element in row u * kSide + ty and column v * kSide + tx of the tile.
template <class Sum>
__device__ void multiply_tiles(Sum (&sum)[kPerThread][kPerThread], const Sum* tile_a, const Sum* tile_b) {
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  for (int p = 0; p < kDepth; ++p)
    for (int u = 0; u < kPerThread; ++u)
      for (int v = 0; v < kPerThread; ++v)
        sum[u][v] += tile_a[p * kPitch + u * kSide + ty] * tile_b[p * kPitch + v * kSide + tx];
}

template <class T, class C>
__device__ void store(const Tiled<T, C>& t, std::int64_t s, std::int64_t i, std::int64_t j, compute_t<T> sum) {
  using Sum = compute_t<T>;
  if (i >= t.g.m || j >= t.g.n) return;
  C& c = t.c[s * t.g.batch_stride_c + i * t.g.row_stride_c + j];
  Sum value = Sum(t.g.alpha) * sum;
  if (t.g.beta != 0) value += Sum(t.g.beta) * Sum(c);
  c = C(value);
}

// blockIdx.x numbers the tiles of C, row by row, and blockIdx.y the matrices of the batch.
template <class T, class C>
__global__ void tiled_kernel(Tiled<T, C> t) {
  using Sum = compute_t<T>;
  const Gemm& g = t.g;
  const GemmStrides stride(g);
  Sum* tile_a = dynamic_shared<Sum>();
  Sum* tile_b = tile_a + kDepth * kPitch;
  const int tx = threadIdx.x % kSide, ty = threadIdx.x / kSide;
  const std::int64_t tiles_across = (g.n + kTile - 1) / kTile;
  const std::int64_t first_i = blockIdx.x / tiles_across * kTile, first_j = blockIdx.x % tiles_across * kTile;
  for (std::int64_t s = blockIdx.y; s < g.batch; s += gridDim.y) {
    Sum sum[kPerThread][kPerThread] = {};
    for (std::int64_t p = 0; p < g.k; p += kDepth) {
      load_tile(tile_a, t.a + s * g.batch_stride_a, first_i, g.m, stride.a_i, p, g.k, stride.a_p);
      load_tile(tile_b, t.b + s * g.batch_stride_b, first_j, g.n, stride.b_j, p, g.k, stride.b_p);
      __syncthreads();
      multiply_tiles(sum, tile_a, tile_b);
      __syncthreads();  // the next step overwrites the tiles
    }
    for (int u = 0; u < kPerThread; ++u)
      for (int v = 0; v < kPerThread; ++v) store(t, s, first_i + u * kSide + ty, first_j + v * kSide + tx, sum[u][v]);
  }
}

}  // namespace

template <class T, class C>
void tiled_gemm_cuda(const Gemm& g, C* c, const T* a, const T* b) {
  const Blocks blocks(blocks_for(g.m, kTile) * blocks_for(g.n, kTile), std::min(g.batch, kMostBlocks));
  launch("gemm: tiled", tiled_kernel<T, C>, {blocks, dim3(kThreads), 2 * kDepth * kPitch * sizeof(compute_t<T>)},
         Tiled<T, C>{c, a, b, g});
}

template void tiled_gemm_cuda(const Gemm&, float*, const float*, const float*);
template void tiled_gemm_cuda(const Gemm&, double*, const double*, const double*);
template void tiled_gemm_cuda(const Gemm&, float*, const bf16*, const bf16*);
template void tiled_gemm_cuda(const Gemm&, bf16*, const bf16*, const bf16*);

}  // namespace foldgrad
