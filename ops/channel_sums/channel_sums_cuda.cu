#include "ops/channel_sums/channel_sums_cuda.h"

namespace foldgrad {
namespace {

// K: 2 with a mean, otherwise 1.
template <int N, int K, class T>
__global__ void __launch_bounds__(kMatrixThreads, 1) moments_kernel(ChannelMomentsPass<T> p) {
  using Value = compute_t<T>;
  const std::int64_t c = (std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  const bool wanted = c < p.columns;
  for (std::int64_t block = blockIdx.y; block < channel_blocks(p.rows); block += gridDim.y) {
    const ChannelBlock rows = channel_block(block, p.rows);
    Pack<T, N> shift = {};
    if constexpr (K == 2) shift = load_cached_pack<N>(p.x + rows.begin * p.columns + c, wanted);
    Value own[N][K] = {};
    FOLDGRAD_UNROLL_BY_4
    for (std::int64_t r = rows.begin + threadIdx.y; r < rows.end; r += blockDim.y) {
      const Pack<T, N> x = load_pack<N>(p.x + r * p.columns + c, wanted);
      FOLDGRAD_UNROLL
      for (int e = 0; e < N; ++e)
        if (wanted) p.add(Value(x.v[e]), Value(shift.v[e]), own[e]);
    }
    add_up_block(own, p.columns, [&](std::int64_t column, const double(&sums)[K]) {
      double squares = sums[0], sum = K == 2 ? sums[K - 1] : 0;
      const Value first = K == 2 ? Value(p.x[rows.begin * p.columns + column]) : Value(0);
      p.take_off_shift(double(rows.end - rows.begin), first, squares, sum);
      p.squares(block)[column] = squares;
      p.sum(block)[column] = sum;
    });
  }
}

template <class T>
struct Moments {
  static constexpr const char* kName = "channel moments";
  ChannelMomentsPass<T> p;
  std::int64_t n = p.columns;

  __device__ void operator()(std::int64_t c) const {
    const std::int64_t blocks = channel_blocks(p.rows);
    const double rows = double(p.rows);
    const double sum = p.with_mean ? sum_of_blocks(blocks, [&](std::int64_t b) { return p.sum(b)[c]; }) : 0;
    const double mean = sum / rows;
    p.mean[c] = mean;
    p.square[c] = sum_of_blocks(blocks, [&](std::int64_t b) { return p.squares_around(b, c, mean); }) / rows;  // [CN-1]
  }
};

template <int N, class T>
void launch_moments(const ChannelMomentsPass<T>& p) {
  if (p.with_mean)
    launch("channel moments", moments_kernel<N, 2, T>, channel_grid<N, 2>(p.columns, p.rows), p);
  else
    launch("channel moments", moments_kernel<N, 1, T>, channel_grid<N, 1>(p.columns, p.rows), p);
}

}  // namespace

template <class T>
void channel_sums_cuda(const ChannelMomentsPass<T>& p) {
  constexpr int N = kPackSize<T>;
  if (p.columns % N == 0 && aligned_for_packs(16, p.x))
    launch_moments<N>(p);
  else
    launch_moments<1>(p);
  elementwise_cuda(Moments<T>{p});
}

template <class T>
void channel_sums_cuda(const ChannelGradientPass<T>& p) {
  sum_channels_cuda(p);
}

FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelMomentsPass);
FOLDGRAD_INSTANTIATE(channel_sums_cuda, ChannelGradientPass);

}  // namespace foldgrad
