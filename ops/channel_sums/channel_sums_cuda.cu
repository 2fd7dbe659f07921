#include <algorithm>

#include "engine/cuda/column_sums.h"
#include "engine/cuda/elementwise.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {
namespace {

constexpr std::int64_t kRowBlocks = 1024;  // along the rows, at most: further blocks are taken in turns; not tuned
static_assert(kChannelBlockRows * 32 / kMatrixThreads <= kChannelChunkRows,
              "few enough for sums in the element's arithmetic");

// Threads that take N columns each, and blocks of kChannelBlockRows rows one after another.
template <int N, int K>
Grid channel_grid(std::int64_t columns, std::int64_t rows) {
  const MatrixThreads threads(columns, N);
  const std::int64_t blocks = std::clamp(channel_blocks(rows), std::int64_t(1), kRowBlocks);
  return {Blocks(std::max(threads.strips, std::int64_t(1)), blocks), threads.block(),
          SumsOfThreads<N, K, double>::kBytes};
}

// Returns the sum of of_block(b) over all blocks of rows, in a fixed order; eight loads are under way at once.
template <class OfBlock>
__device__ double sum_of_blocks(std::int64_t blocks, const OfBlock& of_block) {
  constexpr int kGroups = 8;
  double groups[kGroups] = {};
  for (std::int64_t first = 0; first < blocks; first += kGroups) {
    FOLDGRAD_UNROLL
    for (int g = 0; g < kGroups; ++g)
      if (first + g < blocks) groups[g] += of_block(first + g);
  }
  double sum = 0;
  FOLDGRAD_UNROLL
  for (int g = 0; g < kGroups; ++g) sum += groups[g];
  return sum;
}

template <int N, class P>
__global__ void __launch_bounds__(kMatrixThreads, 1) block_sums_kernel(P p) {
  constexpr int K = P::kSums;
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.columns;
  OperandPacks<N> packs;
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y) {
    const ChannelBlock rows = channel_block(block, p.rows);
    P with_columns = p;
    with_columns.start(block);
    FetchColumns<N> columns{packs, c, wanted};
    with_columns.operands(columns);
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
    const SumsOfThreads<N, K, double> totals(own);
    const int width = N * int(blockDim.x);
    for (int j = int(threadIdx.y * blockDim.x + threadIdx.x); j < width; j += kMatrixThreads) {
      const std::int64_t column = std::int64_t(blockIdx.x) * width + j;
      if (column >= p.columns) continue;
      double sums[K];
      FOLDGRAD_UNROLL
      for (int k = 0; k < K; ++k) sums[k] = totals.total(k, j);
      p.finish_block(block, column, sums);
      FOLDGRAD_UNROLL
      for (int k = 0; k < K; ++k) p.partials[(K * block + k) * p.columns + column] = sums[k];
    }
  }
}

template <class P>
struct ChannelTotals {
  static constexpr const char* kName = "channel totals";
  P p;
  std::int64_t n = p.columns;

  __device__ void operator()(std::int64_t c) const {
    for (int k = 0; k < P::kSums; ++k)
      p.put(k, c, sum_of_blocks(channel_blocks(p.rows), [&](std::int64_t b) { return p.share(k, b, c); }));
  }
};

}  // namespace

// P names its operands (engine/cuda/operands.h).
template <class P>
void channel_sums_cuda(const P& p) {
  constexpr int N = kPackOf<P>;
  if (p.columns % N == 0 && aligned_operands<N>(p))
    launch("channel sums", block_sums_kernel<N, P>, channel_grid<N, P::kSums>(p.columns, p.rows), p);
  else
    launch("channel sums", block_sums_kernel<1, P>, channel_grid<1, P::kSums>(p.columns, p.rows), p);
  elementwise_cuda(ChannelTotals<P>{p});
}

FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelGradientPass);
FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelVariancePass);
FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelSquaresPass);

}  // namespace foldgrad
