// The CUDA side of sums by column (channel_sums.h). For .cu files.
#pragma once
#include "engine/cuda/reduce.h"
#include "ops/channel_norm/channel_sums.h"

namespace foldgrad {

constexpr int kRowThreads = 8;             // a block is 32 neighbouring columns by 8 rows; not tuned
constexpr std::int64_t kRowBlocks = 1024;  // along the rows, at most: what is beyond is taken in turns; not tuned
static_assert(kChannelBlockRows / kRowThreads <= kChannelChunkRows, "few enough for sums in the element's arithmetic");

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
inline Grid strips(std::int64_t columns, std::int64_t blocks) {
  return {Blocks(blocks_for(columns, kWarp), blocks < kRowBlocks ? blocks : kRowBlocks), dim3(kWarp, kRowThreads),
          kRowThreads * kWarp * sizeof(double)};
}
__device__ inline std::int64_t strip_column() { return std::int64_t(blockIdx.x) * kWarp + threadIdx.x; }

template <class P>
__global__ void channel_sums_kernel(P p) {
  constexpr int K = P::kSums;
  const std::int64_t c = strip_column();
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y) {
    const ChannelBlock rows = channel_block(block, p.rows);
    typename P::Value own[K] = {};
    for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end && c < p.columns; r += kRowThreads) p.add(r, c, own);
    for (int k = 0; k < K; ++k) {
      const double sum = strip_sum(own[k]);
      if (threadIdx.y == 0 && c < p.columns) p.partials[(K * block + k) * p.columns + c] = sum;
    }
  }
}
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

template <class P>
void channel_sums_cuda(const char* name, const P& p) {
  launch(name, channel_sums_kernel<P>, strips(p.columns, channel_blocks(p.rows)), p);
  launch(name, finish_channel_sums_kernel<P>, strips(p.columns, 1), p);
}

}  // namespace foldgrad
