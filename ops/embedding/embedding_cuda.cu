#include <cmath>

#include "engine/cuda/pack.h"
#include "engine/cuda/reduce.h"
#include "ops/embedding/embedding_kernels.h"

namespace foldgrad {
namespace {

constexpr int kEmbeddingThreads = 128;        // not tuned
constexpr int kTableRows = 8, kRowPacks = 4;  // table rows per block, with one warp each; packs per lane; not tuned
constexpr int kAtOnce = 4;                    // rows of dy that a warp loads before it adds them; not tuned
constexpr int kIdTile = kWarp * kWarp;        // ids that a block compares at a time: 32 groups of 32
constexpr int kWaiting = kWarp;               // positions per row that may wait for the next tile; not tuned

// Uses one block per position.
template <class T, int N>
__global__ void __launch_bounds__(kEmbeddingThreads) gather_kernel(EmbeddingForward<T> p) {
  const std::int64_t m = blockIdx.x, id = p.ids[m];
  const bool known = 0 <= id && id < p.rows;
  EmbeddingForward<T> in_pack = p;
  for (std::int64_t c = std::int64_t(threadIdx.x) * N; c < p.columns; c += kEmbeddingThreads * N) {
    const Pack<T, N> x = load_pack<N>(p.x + id * p.columns + c, known);
    in_pack.x = x.v;
    Pack<T, N> y;
    FOLDGRAD_UNROLL
    for (int k = 0; k < N; ++k) y.v[k] = T(known ? in_pack.value(0, k) : compute_t<T>(NAN));
    store_pack(p.y + m * p.columns + c, y);
  }
}

// Adds the rows of dy at n positions in order, kAtOnce at a time. The last round is padded with zeros, which do not
// change the bits of a sum that began with 0.
template <class T, int N>
__device__ void add_rows_at(const int* positions, int n, const EmbeddingBackward<T>& p, std::int64_t first_column,
                            compute_t<T> (&sums)[kRowPacks][N]) {
  for (int first = 0; first < n; first += kAtOnce) {
    Pack<T, N> dy[kAtOnce][kRowPacks];
    FOLDGRAD_UNROLL
    for (int i = 0; i < kAtOnce; ++i) {
      const bool there = first + i < n;
      const T* row = p.dy + (there ? positions[first + i] : 0) * p.columns;
      FOLDGRAD_UNROLL
      for (int j = 0; j < kRowPacks; ++j) {
        const std::int64_t c = first_column + j * kWarp * N;
        dy[i][j] = load_pack<N>(row + c, there && c < p.columns);
      }
    }
    FOLDGRAD_UNROLL
    for (const auto& row : dy) {
      FOLDGRAD_UNROLL
      for (int j = 0; j < kRowPacks; ++j) {
        FOLDGRAD_UNROLL
        for (int k = 0; k < N; ++k) sums[j][k] += compute_t<T>(row[j].v[k]);
      }
    }
  }
}

// For each id of a tile, writes to row_of the id's row within the block, or -1 if another block has the row. For each
// group of 32 ids, writes to `any` whether the block has a row of the group.
template <class T>
__device__ void note_rows(const EmbeddingBackward<T>& p, std::int64_t first, int* row_of, int* any) {
  FOLDGRAD_UNROLL
  for (int round = 0; round < kIdTile / (kTableRows * kWarp); ++round) {
    const int at = round * kTableRows * kWarp + int(threadIdx.x);
    const bool there = first + at < p.positions;
    const std::int64_t id = load_cached_pack<1>(p.ids + first + at, there).v[0];
    const bool ours = there && p.counts(id) && id / kTableRows == std::int64_t(blockIdx.x);
    row_of[at] = ours ? int(id % kTableRows) : -1;
    const unsigned lanes = __ballot_sync(0xffffffffu, ours);
    if (at % kWarp == 0) any[at / kWarp] = lanes != 0;
  }
}

// Uses one block per kTableRows rows of the table and strip of columns, one warp per row. The block searches all ids, a
// tile at a time, for its rows. Each warp lists its row's positions in order, and adds the rows of dy at these
// positions when the list is long enough or no ids are left. So the result does not depend on the order of threads.
template <class T, int N>
__global__ void __launch_bounds__(kTableRows* kWarp) backward_kernel(EmbeddingBackward<T> p) {
  const int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  int *row_of = dynamic_shared<int>(), *any = row_of + kIdTile, *list = any + kWarp + warp * (kIdTile + kWaiting);
  const std::int64_t v = std::int64_t(blockIdx.x) * kTableRows + warp,
                     first_column = (std::int64_t(blockIdx.y) * kRowPacks * kWarp + lane) * N;
  compute_t<T> sums[kRowPacks][N] = {};
  int listed = 0;
  for (std::int64_t first = 0; first < p.positions; first += kIdTile) {
    __syncthreads();  // threads may still read the previous tile
    note_rows(p, first, row_of, any);
    __syncthreads();
    for (unsigned groups = __ballot_sync(0xffffffffu, any[lane]); groups != 0; groups &= groups - 1) {
      const int at = (__ffs(int(groups)) - 1) * kWarp + lane;
      const unsigned lanes = __ballot_sync(0xffffffffu, row_of[at] == warp);
      if (row_of[at] == warp) list[listed + __popc(lanes & ((1u << lane) - 1))] = int(first) + at;
      listed += __popc(lanes);
    }
    if (listed <= kWaiting && first + kIdTile < p.positions) continue;
    __syncwarp();
    add_rows_at(list, listed, p, first_column, sums);
    listed = 0;
  }
  FOLDGRAD_UNROLL
  for (int j = 0; j < kRowPacks; ++j) {
    FOLDGRAD_UNROLL
    for (int k = 0; k < N; ++k) sums[j][k] *= p.scale;  // [EMB-2]
    const std::int64_t c = first_column + j * kWarp * N;
    put_pack(p.dx, v * p.columns + c, sums[j], v < p.rows && c < p.columns);
  }
}

template <class T, int N>
void launch_backward(const EmbeddingBackward<T>& p) {
  const Blocks blocks(blocks_for(p.rows, kTableRows), blocks_for(p.columns, kRowPacks * kWarp * N));
  launch("embedding backward", backward_kernel<T, N>,
         {blocks, dim3(kTableRows * kWarp), (kIdTile + kWarp + kTableRows * (kIdTile + kWaiting)) * sizeof(int)}, p);
}

}  // namespace

template <class T>
void embedding_cuda(const EmbeddingForward<T>& p) {
  constexpr int N = kPackSize<T>;
  const bool packs = p.columns % N == 0 && aligned_for_packs(N * sizeof(T), p.y, p.x);
  launch("embedding forward", packs ? gather_kernel<T, N> : gather_kernel<T, 1>, {p.positions, dim3(kEmbeddingThreads)},
         p);
}

template <class T>
void embedding_cuda(const EmbeddingBackward<T>& p) {
  constexpr int N = kPackSize<compute_t<T>>;  // a pack of sums has 16 bytes; sums of bf16 rows are in f32
  if (p.columns % N == 0 && aligned_for_packs(N * sizeof(T), p.dy) && aligned_for_packs(16, p.dx.data))
    launch_backward<T, N>(p);
  else
    launch_backward<T, 1>(p);
}

FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingForward);
FOLDGRAD_INSTANTIATE(embedding_cuda, EmbeddingBackward);

}  // namespace foldgrad
