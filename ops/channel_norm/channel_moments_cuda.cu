#include "ops/channel_norm/channel_moments_kernels.h"
#include "ops/channel_norm/channel_sums_cuda.h"

namespace foldgrad {
namespace {

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
    if (column == 0) p.counts[block] = double(real.count);
  });
}
template <int N, class T>
__global__ void __launch_bounds__(kMatrixThreads, 1) moments_kernel(ChannelMomentsPass<T> p) {
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y)
    p.with_mean ? block_moments<N, 2>(p, block) : block_moments<N, 1>(p, block);
}

// One block per strip.
template <class T>
__global__ void finish_moments_kernel(ChannelMomentsPass<T> p) {
  const std::int64_t c = strip_column(), blocks = channel_blocks(p.rows);
  const bool inside = c < p.columns;
  double n = 0, sum = 0, squares = 0;
  for (std::int64_t b = threadIdx.y; b < blocks; b += kRowThreads) {
    n += p.counts[b];
    if (inside && p.with_mean) sum += p.sum(b)[c];
  }
  n = strip_sum(n);
  const double mean = strip_sum(sum) / n;
  for (std::int64_t b = threadIdx.y; b < blocks && inside; b += kRowThreads) squares += p.squares_around(b, c, mean);
  squares = strip_sum(squares);
  if (threadIdx.y != 0 || !inside) return;
  p.mean[c] = mean;
  p.square[c] = squares / n;  // [CN-1]
  if (c == 0) *p.count = n;
}

}  // namespace

template <class T>
void channel_moments_cuda(const ChannelMomentsPass<T>& p) {
  constexpr int N = kPackSize<T>;
  if (p.columns % N == 0 && aligned_for_packs(16, p.x))
    launch("channel_norm moments", moments_kernel<N, T>, channel_grid<N, 2>(p.columns, p.rows), p);
  else
    launch("channel_norm moments", moments_kernel<1, T>, channel_grid<1, 2>(p.columns, p.rows), p);
  launch("channel_norm moments of all rows", finish_moments_kernel<T>, strips(p.columns), p);
}

FOLDGRAD_INSTANTIATE(channel_moments_cuda, ChannelMomentsPass);

}  // namespace foldgrad
