// The CUDA side of channel_moments.h, with what follows from the moments. For .cu files.
#pragma once
#include "ops/channel_norm/channel_moments_kernels.h"
#include "ops/channel_norm/channel_sums_cuda.h"

namespace foldgrad {

// Of one block of rows, and the columns of this block of threads.
template <int N, int K, class T>
__device__ void block_moments(const ChannelMomentsPass<T>& p, std::int64_t block) {
  using Value = compute_t<T>;
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const ChannelBlock rows = channel_block(block, p.rows);
  const auto real = p.real_rows(rows);
  const T* shifts = p.x + real.first * p.columns;  // by column
  const Pack<T, N> shift = load_cached_pack<N>(shifts + c, K == 2 && c < p.columns);
  Value own[N][K] = {};
  FOLDGRAD_UNROLL_BY_4
  for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end; r += blockDim.y) {
    const bool counts = c < p.columns && p.real(r);
    const Pack<T, N> x = load_pack<N>(p.x + r * p.columns + c, counts);
    ChannelMomentsPass<T> at = p;
    at.x = x.v;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e)
      if (counts) at.template add<K>(0, e, Value(shift.v[e]), own[e]);
  }
  add_up_block(own, p.columns, [&](std::int64_t column, const double(&sums)[K]) {
    double squares = sums[0], sum = K == 2 ? sums[K - 1] : 0;
    p.take_off_shift(double(real.count), K == 2 ? double(Value(shifts[column])) : 0, squares, sum);
    p.squares(block)[column] = squares;
    p.sum(block)[column] = sum;
    if (column % kCountColumns == 0) p.counts_of(column)[block] = double(real.count);
  });
}
template <int N, class T, class Then>
__global__ void __launch_bounds__(kMatrixThreads, 1) moments_kernel(ChannelSumsThen<ChannelMomentsPass<T>, Then> task) {
  const ChannelMomentsPass<T>& p = task.pass;
  const std::int64_t blocks = channel_blocks(p.rows);
  for (std::int64_t block = blockIdx.y; block < blocks; block += gridDim.y)
    p.with_mean ? block_moments<N, 2>(p, block) : block_moments<N, 1>(p, block);
  finish_strips<N>(task, [&](std::int64_t c) {
    ChannelMomentsPass<T> of = p;
    of.counts = p.counts_of(c);
    const double n = sum_of_blocks(blocks, [&](std::int64_t b) { return of.counts[b]; });
    const double sum = of.with_mean ? sum_of_blocks(blocks, [&](std::int64_t b) { return of.sum(b)[c]; }) : 0;
    const double mean = sum / n;
    of.mean[c] = mean;
    of.square[c] = sum_of_blocks(blocks, [&](std::int64_t b) { return of.squares_around(b, c, mean); }) / n;  // [CN-1]
    if (c == 0) *of.count = n;
  });
}

template <class T, class Then>
void moments_cuda(const ChannelMomentsPass<T>& p, const Then& then) {
  constexpr int N = kPackSize<T>;
  const auto run = [&](auto kernel, const Grid& grid) {
    launch("channel_norm moments", kernel, grid,
           ChannelSumsThen<ChannelMomentsPass<T>, Then>{p, then, arrivals(1 + grid.blocks.x)});
  };
  if (p.columns % N == 0 && aligned_for_packs(16, p.x))
    run(moments_kernel<N, T, Then>, channel_grid<N, 2>(p.columns, p.rows));
  else
    run(moments_kernel<1, T, Then>, channel_grid<1, 2>(p.columns, p.rows));
}

}  // namespace foldgrad
