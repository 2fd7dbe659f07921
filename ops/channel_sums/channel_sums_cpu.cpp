#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/memory.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {
namespace {

// Adds a row to chunk [kSums, columns].
template <class P>
void add_row(const P& given, std::int64_t r, typename P::Value* chunk) {
  constexpr int K = P::kSums;
  const P p = given;  // a copy in registers, since a reference might alias the sums
  const std::int64_t columns = p.columns;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    typename P::Value sums[K];
    for (int k = 0; k < K; ++k) sums[k] = chunk[k * columns + c];
    p.add(r, c, sums);
    for (int k = 0; k < K; ++k) chunk[k * columns + c] = sums[k];
  }
}

template <class P>
void sum_block(P p, std::int64_t block) {
  constexpr int K = P::kSums;
  using Value = typename P::Value;
  const ChannelBlock rows = channel_block(block, p.rows);
  const std::int64_t columns = p.columns;
  const auto scratch = memory::allocate(Device::cpu, std::size_t(K * columns) * sizeof(Value));
  Value* chunk = static_cast<Value*>(scratch.get());
  double* own = p.partials + K * block * columns;
  std::fill_n(own, K * columns, 0.0);
  p.start(block);
  for (std::int64_t first = rows.begin; first < rows.end; first += kChannelChunkRows) {
    std::fill_n(chunk, K * columns, Value(0));
    for (std::int64_t r = first; r < std::min(rows.end, first + kChannelChunkRows); ++r) add_row(p, r, chunk);
#pragma omp simd
    for (std::int64_t j = 0; j < K * columns; ++j) own[j] += double(chunk[j]);
  }
  double overflow = 0;  // becomes NaN if a sum is infinite or NaN
#pragma omp simd reduction(+ : overflow)
  for (std::int64_t c = 0; c < columns; ++c) {
    double sums[K];
    for (int k = 0; k < K; ++k) sums[k] = own[k * columns + c];
    p.finish_block(block, c, sums);
    for (int k = 0; k < K; ++k) own[k * columns + c] = sums[k];
    overflow += 0 * sums[K - 1];
  }
  for (std::int64_t c = 0; c < columns && overflow != 0; ++c) {
    double sums[K];
    if (finite_sum(own[(K - 1) * columns + c])) continue;
    sum_again(p, block, c, sums);
    for (int k = 0; k < K; ++k) own[k * columns + c] = sums[k];
  }
}

// Adds up the partial sums of all blocks, in order, for up to kChannelsAtOnce adjacent channels.
constexpr std::int64_t kChannelsAtOnce = 64;
template <class P>
void add_up_blocks(const P& given, std::int64_t begin) {
  const P p = given;
  const std::int64_t blocks = channel_blocks(p.rows), end = std::min(p.columns, begin + kChannelsAtOnce);
  for (int k = 0; k < P::kSums; ++k) {
    double totals[kChannelsAtOnce] = {};
    for (std::int64_t b = 0; b < blocks; ++b)
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) totals[c - begin] += p.share(k, b, c);
    for (std::int64_t c = begin; c < end; ++c) p.put(k, c, totals[c - begin]);
  }
}

}  // namespace

template <class P>
void channel_sums_cpu(const P& p) {
  const std::int64_t blocks = channel_blocks(p.rows);
  for_rows_cpu(blocks, p.rows * p.columns / std::max<std::int64_t>(blocks, 1),
               [&p](std::int64_t b) { sum_block(p, b); });
  for_rows_cpu((p.columns + kChannelsAtOnce - 1) / kChannelsAtOnce, 8 * kChannelsAtOnce * blocks,
               [&p](std::int64_t part) { add_up_blocks(p, part * kChannelsAtOnce); });
}

FOLDGRAD_INSTANTIATE(channel_sums_cpu, ChannelGradientPass);
FOLDGRAD_INSTANTIATE(channel_sums_cpu, ChannelVariancePass);
FOLDGRAD_INSTANTIATE(channel_sums_cpu, ChannelSquaresPass);

}  // namespace foldgrad
