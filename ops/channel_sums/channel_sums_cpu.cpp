#include "ops/channel_sums/channel_sums_cpu.h"

namespace foldgrad {
namespace {

template <int K, class T>
void block_moments(const ChannelMomentsPass<T>& p, std::int64_t block) {
  using Value = compute_t<T>;
  const ChannelBlock rows = channel_block(block, p.rows);
  const T* shift = p.x + rows.begin * p.columns;
  double *squares = p.squares(block), *sum = p.sum(block);
  channel_block_sums_cpu<K, Value>(
      rows, p.columns,
      [x = p.x, columns = p.columns, shift](std::int64_t r, std::int64_t c, Value(&sums)[K]) {
        ChannelMomentsPass<T>::add(Value(x[r * columns + c]), K == 2 ? Value(shift[c]) : Value(0), sums);
      },
      squares);
  for (std::int64_t c = 0; c < p.columns && p.with_mean; ++c)
    p.take_off_shift(double(rows.end - rows.begin), Value(shift[c]), squares[c], sum[c]);
}

}  // namespace

template <class T>
void channel_sums_cpu(const ChannelMomentsPass<T>& p) {
  const std::int64_t blocks = channel_blocks(p.rows);
#pragma omp parallel for schedule(static) if (p.rows * p.columns >= kParallelElements)
  for (std::int64_t b = 0; b < blocks; ++b) p.with_mean ? block_moments<2>(p, b) : block_moments<1>(p, b);
  const double n = double(p.rows);
  for_channels_cpu(p.columns, blocks, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    const ChannelMomentsPass<T> local = p;
    double *mean = p.mean, *square = p.square;
    const auto sum = [&](std::int64_t b) { return local.sum(b); };
    add_channel_blocks_cpu(local.with_mean ? blocks : 0, begin, end, sum, mean);
    for (std::int64_t c = begin; c < end; ++c) mean[c] /= n;
    std::fill(square + begin, square + end, 0.0);
    for (std::int64_t b = 0; b < blocks; ++b)
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) square[c] += local.squares_around(b, c, mean[c]);
    for (std::int64_t c = begin; c < end; ++c) square[c] /= n;  // [CN-1]
  });
}

template <class T>
void channel_sums_cpu(const ChannelGradientPass<T>& p) {
  sum_channels_cpu(p);
}

FOLDGRAD_INSTANTIATE(channel_sums_cpu, ChannelMomentsPass);
FOLDGRAD_INSTANTIATE(channel_sums_cpu, ChannelGradientPass);

}  // namespace foldgrad
