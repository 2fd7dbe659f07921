#include "ops/channel_norm/channel_moments_kernels.h"
#include "ops/channel_norm/channel_sums_cuda.h"

namespace foldgrad {
namespace {

// Of one strip and one block of rows.
template <int K, class T>
__device__ void block_moments(const ChannelMomentsPass<T>& p, std::int64_t block) {
  using Value = compute_t<T>;
  const std::int64_t c = strip_column();
  const bool inside = c < p.columns;
  const ChannelBlock rows = channel_block(block, p.rows);
  const auto real = p.real_rows(rows);
  const Value shift = K == 2 && inside ? Value(p.x[real.first * p.columns + c]) : Value(0);
  Value own[K] = {};
  for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end && inside; r += kRowThreads)
    if (p.real(r)) p.template add<K>(r, c, shift, own);
  double sums[2] = {};
  for (int k = 0; k < K; ++k) sums[k] = strip_sum(own[k]);
  if (threadIdx.y != 0 || !inside) return;
  p.take_off_shift(double(real.count), shift, sums[0], sums[1]);
  p.squares(block)[c] = sums[0];
  p.sum(block)[c] = sums[1];
  if (c == 0) p.counts[block] = double(real.count);
}
template <class T>
__global__ void moments_kernel(ChannelMomentsPass<T> p) {
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y)
    p.with_mean ? block_moments<2>(p, block) : block_moments<1>(p, block);
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
  launch("channel_norm moments", moments_kernel<T>, strips(p.columns, channel_blocks(p.rows)), p);
  launch("channel_norm moments of all rows", finish_moments_kernel<T>, strips(p.columns, 1), p);
}

FOLDGRAD_INSTANTIATE(channel_moments_cuda, ChannelMomentsPass);

}  // namespace foldgrad
