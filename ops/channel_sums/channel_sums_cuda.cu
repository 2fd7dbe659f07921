#include <algorithm>

#include "engine/cuda/column_sums.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {
namespace {

// The maximum number of blocks along the rows (not tuned). A block loops over several parts of the rows if necessary.
constexpr std::int64_t kRowBlocks = 1024;
static_assert(kChannelBlockRows * 32 / kMatrixThreads <= kChannelChunkRows,
              "a thread must not add up more rows than a chunk contains");

// Returns a grid whose threads process N columns each and whose blocks process kChannelBlockRows rows at a time.
template <int N, int K>
Grid channel_grid(std::int64_t columns, std::int64_t rows) {
  const MatrixThreads threads(columns, N);
  const std::int64_t blocks = std::clamp(channel_blocks(rows), std::int64_t(1), kRowBlocks);
  return {Blocks(std::max(threads.strips, std::int64_t(1)), blocks), threads.block(),
          SumsOfThreads<N, K, double>::kBytes};
}

template <int N, class P>
__global__ void __launch_bounds__(kMatrixThreads, 1) block_sums_kernel(P p) {
  constexpr int K = P::kSums;
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.columns;
  OperandPacks<N> packs;
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y) {
    const ChannelBlock rows = channel_block(block, p.rows);
    P started = p;
    started.start(block);
    const P with_columns = visited(started, FetchColumns<N>{{packs}, c, wanted});
    typename P::Value own[N][K] = {};
    FOLDGRAD_UNROLL_BY_4
    for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end; r += blockDim.y) {
      const P at = visited(with_columns, FetchElements<N>{{packs}, r * p.columns + c, r, wanted});
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e)
        if (wanted) at.add(0, e, own[e]);
    }
    const SumsOfThreads<N, K, double> totals(own);
    const int width = N * int(blockDim.x);
    for (int j = int(threadIdx.y * blockDim.x + threadIdx.x); j < width; j += kMatrixThreads) {
      const std::int64_t column = std::int64_t(blockIdx.x) * width + j;
      if (column >= p.columns) continue;
      double sums[K];
      FOLDGRAD_UNROLL
      for (int k = 0; k < K; ++k) sums[k] = totals.total(k, j);
      p.finish_block(block, column, sums);
      if (!finite_sum(sums[K - 1])) sum_again(p, block, column, sums);
      FOLDGRAD_UNROLL
      for (int k = 0; k < K; ++k) p.partials[(K * block + k) * p.columns + column] = sums[k];
    }
  }
}

// Adds the shares of all blocks of rows. A block of [kFinishGroups, 32] threads handles 32 columns. The kernel reads so
// little that its time is the latency of dependent loads; therefore several threads share a column.
template <class P>
__global__ void totals_kernel(P p) {
  const SharedArray<double> groups = shared_array<double>();  // [kFinishGroups, 32]
  const std::int64_t c = std::int64_t(blockIdx.x) * kWarp + threadIdx.x, blocks = channel_blocks(p.rows);
  FOLDGRAD_UNROLL
  for (int k = 0; k < P::kSums; ++k) {
    double sum = 0;
    if (c < p.columns) {
      FOLDGRAD_UNROLL_BY_4
      for (std::int64_t b = threadIdx.y; b < blocks; b += kFinishGroups) sum += p.share(k, b, c);
    }
    groups[threadIdx.y * kWarp + threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < p.columns) {
      for (int g = 1; g < kFinishGroups; ++g) sum += groups[g * kWarp + threadIdx.x];
      p.put(k, c, sum);
    }
    __syncthreads();  // the shares of the next sum may depend on this total
  }
}

}  // namespace

// P must name its operands (engine/cuda/operands.h).
template <class P>
void channel_sums_cuda(const P& p) {
  constexpr int N = kPackOf<P>;
  in_packs<N>(p) ? launch("channel sums", block_sums_kernel<N, P>, channel_grid<N, P::kSums>(p.columns, p.rows), p)
                 : launch("channel sums", block_sums_kernel<1, P>, channel_grid<1, P::kSums>(p.columns, p.rows), p);
  const Grid totals{blocks_for(p.columns, kWarp), dim3(kWarp, kFinishGroups), kFinishGroups * kWarp * sizeof(double)};
  launch("channel totals", totals_kernel<P>, totals, p);
}

FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelGradientPass);
FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelVariancePass);
FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelSquaresPass);

}  // namespace foldgrad
