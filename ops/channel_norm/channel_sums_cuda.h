// The CUDA side of sums by column (channel_sums.h). For .cu files.
#pragma once
#include "engine/cuda/matrix.h"
#include "engine/cuda/reduce.h"
#include "ops/channel_norm/channel_sums.h"

namespace foldgrad {

constexpr std::int64_t kRowBlocks = 1024;  // along the rows, at most: what is beyond is taken in turns; not tuned
static_assert(kChannelBlockRows * 32 / kMatrixThreads <= kChannelChunkRows,
              "few enough for sums in the element's arithmetic");

// Threads that take N columns each, and blocks of kChannelBlockRows rows one after another. Shared memory: K sums.
template <int N, int K>
Grid channel_grid(std::int64_t columns, std::int64_t rows) {
  const MatrixThreads threads(columns, N);
  const std::int64_t blocks = channel_blocks(rows);
  return {Blocks(threads.strips, blocks < kRowBlocks ? blocks : kRowBlocks), threads.block(),
          kMatrixThreads * N * K * sizeof(double)};
}

// The sums own[N][K] that the threads of a block hold, added over its rows of threads in their order: put(c, sums) once
// for each of its columns.
template <int N, int K, class Value, class Put>
__device__ void add_up_block(const Value (&own)[N][K], std::int64_t columns, const Put& put) {
  double* shared = dynamic_shared<double>();  // [K, blockDim.y, width]
  const int width = N * int(blockDim.x), rows = int(blockDim.y), thread = int(threadIdx.y * blockDim.x + threadIdx.x);
  __syncthreads();  // earlier sums may still be read
  FOLDGRAD_UNROLL
  for (int e = 0; e < N; ++e) {
    FOLDGRAD_UNROLL
    for (int k = 0; k < K; ++k)
      shared[(k * rows + int(threadIdx.y)) * width + int(threadIdx.x) * N + e] = double(own[e][k]);
  }
  __syncthreads();
  for (int j = thread; j < width; j += kMatrixThreads) {
    const std::int64_t c = std::int64_t(blockIdx.x) * width + j;
    if (c >= columns) continue;
    double sums[K] = {};
    FOLDGRAD_UNROLL
    for (int k = 0; k < K; ++k)
      for (int y = 0; y < rows; ++y) sums[k] += shared[(k * rows + y) * width + j];
    put(c, sums);
  }
}

template <int N, class P>
__global__ void __launch_bounds__(kMatrixThreads) channel_sums_kernel(P p) {
  constexpr int K = P::kSums;
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.columns;
  OperandPacks<N> packs;
  P with_columns = p;
  FetchColumns<N> columns{packs, c, wanted};
  with_columns.operands(columns);
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y) {
    const ChannelBlock rows = channel_block(block, p.rows);
    typename P::Value own[N][K] = {};
    FOLDGRAD_UNROLL_BY_4
    for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end; r += blockDim.y) {
      P at = with_columns;
      FetchElements<N> fetch{packs, r * p.columns + c, r, wanted};
      at.operands(fetch);
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e)
        if (wanted) at.add(0, e, own[e]);
    }
    add_up_block(own, p.columns, [&](std::int64_t column, const double(&sums)[K]) {
      FOLDGRAD_UNROLL
      for (int k = 0; k < K; ++k) p.partials[(K * block + k) * p.columns + column] = sums[k];
    });
  }
}

constexpr int kRowThreads = 8;  // that add up a column's partial sums; not tuned

// Of a strip of 32 columns, the sums that its 8 threads per column hold, in their order, given back to each of them.
__device__ inline double strip_sum(double own) {
  double* scratch = dynamic_shared<double>();  // [kRowThreads, kWarp]
  __syncthreads();                             // an earlier sum may still be read
  scratch[threadIdx.y * kWarp + threadIdx.x] = own;
  __syncthreads();
  double sum = 0;
  for (int y = 0; y < kRowThreads; ++y) sum += scratch[y * kWarp + threadIdx.x];
  return sum;
}
inline Grid strips(std::int64_t columns) {
  return {blocks_for(columns, kWarp), dim3(kWarp, kRowThreads), kRowThreads * kWarp * sizeof(double)};
}
__device__ inline std::int64_t strip_column() { return std::int64_t(blockIdx.x) * kWarp + threadIdx.x; }

// One block per strip.
template <class P>
__global__ void finish_channel_sums_kernel(P p) {
  constexpr int K = P::kSums;
  const std::int64_t c = strip_column();
  for (int k = 0; k < K; ++k) {
    double own = 0;
    for (std::int64_t b = threadIdx.y; b < channel_blocks(p.rows) && c < p.columns; b += kRowThreads)
      own += p.partials[(K * b + k) * p.columns + c];
    own = strip_sum(own);
    if (threadIdx.y == 0 && c < p.columns) p.sums[k][c] = own;
  }
}

// P names its operands (engine/cuda/operands.h).
template <class P>
void channel_sums_cuda(const char* name, const P& p) {
  constexpr int N = kPackOf<P>;
  if (p.columns % N == 0 && aligned_operands<N>(p))
    launch(name, channel_sums_kernel<N, P>, channel_grid<N, P::kSums>(p.columns, p.rows), p);
  else
    launch(name, channel_sums_kernel<1, P>, channel_grid<1, P::kSums>(p.columns, p.rows), p);
  launch(name, finish_channel_sums_kernel<P>, strips(p.columns), p);
}

}  // namespace foldgrad
