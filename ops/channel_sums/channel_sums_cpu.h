// The CPU side of sums by column (channel_sums_kernels.h).
#pragma once
#include <algorithm>

#include "engine/cpu/rows.h"
#include "engine/dtype.h"
#include "engine/memory.h"
#include "ops/channel_sums/channel_sums_kernels.h"

namespace foldgrad {

// Sets own [K, columns] to the sums over the rows of a block. add(r, c, sums) adds the terms of one element.
template <int K, class Value, class Add>
void channel_block_sums_cpu(ChannelBlock rows, std::int64_t columns, const Add& add, double* own) {
  const auto scratch = memory::allocate(Device::cpu, std::size_t(K * columns) * sizeof(Value));
  Value* chunk = static_cast<Value*>(scratch.get());
  std::fill_n(own, K * columns, 0.0);
  for (std::int64_t first = rows.begin; first < rows.end; first += kChannelChunkRows) {
    std::fill_n(chunk, K * columns, Value(0));
    for (std::int64_t r = first; r < std::min(rows.end, first + kChannelChunkRows); ++r) {
      const Add local = add;  // in registers: behind a reference it could alias the sums
#pragma omp simd
      for (std::int64_t c = 0; c < columns; ++c) {
        Value sums[K];
        for (int k = 0; k < K; ++k) sums[k] = chunk[k * columns + c];
        local(r, c, sums);
        for (int k = 0; k < K; ++k) chunk[k * columns + c] = sums[k];
      }
    }
#pragma omp simd
    for (std::int64_t j = 0; j < K * columns; ++j) own[j] += double(chunk[j]);
  }
}

// Calls body(begin, end, part) for all channels, in parts of consecutive ones.
constexpr std::int64_t kChannelsPerPart = 64;
inline std::int64_t channel_parts(std::int64_t columns) { return (columns + kChannelsPerPart - 1) / kChannelsPerPart; }
template <class Body>
void for_channels_cpu(std::int64_t columns, std::int64_t work_per_channel, const Body& body) {
#pragma omp parallel for schedule(static) if (columns * work_per_channel >= 4096)
  for (std::int64_t part = 0; part < channel_parts(columns); ++part)
    body(part * kChannelsPerPart, std::min(columns, (part + 1) * kChannelsPerPart), part);
}

// Sets sums[c] to the sum of of_block(b)[c] over the blocks, for channels from `begin` to `end`.
template <class OfBlock>
void add_channel_blocks_cpu(std::int64_t blocks, std::int64_t begin, std::int64_t end, const OfBlock& of_block,
                            double* sums) {
  std::fill(sums + begin, sums + end, 0.0);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const double* own = of_block(b);
#pragma omp simd
    for (std::int64_t c = begin; c < end; ++c) sums[c] += own[c];
  }
}

template <class P>
void sum_channels_cpu(const P& p) {
  constexpr int K = P::kSums;
  using Value = typename P::Value;
  const std::int64_t blocks = channel_blocks(p.rows), columns = p.columns;
#pragma omp parallel for schedule(static) if (p.rows * columns >= kParallelElements)
  for (std::int64_t b = 0; b < blocks; ++b)
    channel_block_sums_cpu<K, Value>(
        channel_block(b, p.rows), columns, [p](std::int64_t r, std::int64_t c, Value(&sums)[K]) { p.add(r, c, sums); },
        p.partials + K * b * columns);
  for_channels_cpu(columns, blocks, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    for (int k = 0; k < K; ++k)
      add_channel_blocks_cpu(
          blocks, begin, end, [&](std::int64_t b) { return p.partials + (K * b + k) * columns; }, p.sums[k]);
  });
}

}  // namespace foldgrad
