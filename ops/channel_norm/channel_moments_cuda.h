// The CUDA side of channel_moments.h, with what follows from the moments. For .cu files.
#pragma once
#include "ops/channel_norm/channel_moments_kernels.h"
#include "ops/channel_norm/channel_sums_cuda.h"

namespace foldgrad {

// The rows of x for one thread, which takes N columns from c on. This is how they are read; where they are formed at
// the same time, they are written, too (formed_rows_cuda.h).
template <int N, class T>
struct RowsInMemory {
  const T* x;
  std::int64_t columns, c;
  bool wanted;

  __device__ RowsInMemory(const ChannelMomentsPass<T>& p, std::int64_t c)
      : x(p.x), columns(p.columns), c(c), wanted(c < p.columns) {}
  // Once for each row; what does not count need not be read.
  __device__ __forceinline__ Pack<T, N> take(std::int64_t r, bool counts) {
    return load_pack<N>(x + r * columns + c, wanted && counts);
  }
  // In advance.
  __device__ __forceinline__ Pack<T, N> peek(std::int64_t r) {
    return load_cached_pack<N>(x + r * columns + c, wanted);
  }
};

// Of one block of rows, and the columns of this block of threads.
template <int N, int K, class T, class Rows>
__device__ void block_moments(const ChannelMomentsPass<T>& p, Rows& x, std::int64_t block) {
  using Value = compute_t<T>;
  const ChannelBlock rows = channel_block(block, p.rows);
  const auto real = p.real_rows(rows);
  Pack<T, N> shift = {};
  if constexpr (K == 2) shift = x.peek(real.first);
  Value own[N][K] = {};
  FOLDGRAD_UNROLL_BY_4
  for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end; r += blockDim.y) {
    const bool counts = p.real(r);
    const Pack<T, N> pack = x.take(r, counts);
    ChannelMomentsPass<T> at = p;
    at.x = pack.v;
    FOLDGRAD_UNROLL
    for (int e = 0; e < N; ++e)
      if (x.wanted && counts) at.template add<K>(0, e, Value(shift.v[e]), own[e]);
  }
  add_up_block(own, p.columns, [&](std::int64_t column, const double(&sums)[K]) {
    double squares = sums[0], sum = K == 2 ? sums[K - 1] : 0;
    p.take_off_shift(double(real.count), K == 2 ? double(Value(p.x[real.first * p.columns + column])) : 0, squares,
                     sum);
    p.squares(block)[column] = squares;
    p.sum(block)[column] = sum;
    if (column % kCountColumns == 0) p.counts_of(column)[block] = double(real.count);
  });
}

// By a block of threads that takes the blocks of rows in turns. K: 2 with a mean, otherwise 1.
template <int N, int K, class T, class Then, class Rows>
__device__ void moments(const ChannelSumsThen<ChannelMomentsPass<T>, Then>& task, Rows& x) {
  const ChannelMomentsPass<T>& p = task.pass;
  const std::int64_t blocks = channel_blocks(p.rows);
  for (std::int64_t block = blockIdx.y; block < blocks; block += gridDim.y) block_moments<N, K>(p, x, block);
  finish_strips<N>(task, [&](std::int64_t c) {
    ChannelMomentsPass<T> of = p;
    of.counts = p.counts_of(c);
    const double n = sum_of_blocks(blocks, [&](std::int64_t b) { return of.counts[b]; });
    const double sum = K == 2 ? sum_of_blocks(blocks, [&](std::int64_t b) { return of.sum(b)[c]; }) : 0;
    const double mean = sum / n;
    of.mean[c] = mean;
    of.square[c] = sum_of_blocks(blocks, [&](std::int64_t b) { return of.squares_around(b, c, mean); }) / n;  // [CN-1]
    if (c == 0) *of.count = n;
  });
}

// Calls run(N, K) with constants: the size of packs, 1 unless `aligned` says that they fit, and K as above.
template <class T, class Run>
void with_moments(const ChannelMomentsPass<T>& p, bool aligned, const Run& run) {
  constexpr int N = kPackSize<T>;
  const auto with_pack = [&](auto pack) {
    if (p.with_mean)
      run(pack, std::integral_constant<int, 2>());
    else
      run(pack, std::integral_constant<int, 1>());
  };
  if (p.columns % N == 0 && aligned)
    with_pack(std::integral_constant<int, N>());
  else
    with_pack(std::integral_constant<int, 1>());
}

template <int N, int K, class T, class Then>
__global__ void __launch_bounds__(kMatrixThreads, 1) moments_kernel(ChannelSumsThen<ChannelMomentsPass<T>, Then> task) {
  RowsInMemory<N, T> x(task.pass, (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N);
  moments<N, K>(task, x);
}

template <class T, class Then>
void moments_cuda(const ChannelMomentsPass<T>& p, const Then& then) {
  with_moments(p, aligned_for_packs(16, p.x), [&](auto N, auto K) {
    const Grid grid = channel_grid<N, K>(p.columns, p.rows);
    launch("channel_norm moments", moments_kernel<N, K, T, Then>, grid,
           ChannelSumsThen<ChannelMomentsPass<T>, Then>{p, then, arrivals(1 + grid.blocks.x)});
  });
}

}  // namespace foldgrad
