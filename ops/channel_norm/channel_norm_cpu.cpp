#include <algorithm>
#include <vector>

#include "engine/cpu/rows.h"
#include "engine/memory.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

using channel_norm_math::LayerTotals;
constexpr std::int64_t kChannels = 64;  // that one thread takes at a time

struct Rows {
  std::int64_t begin, end;
};
Rows block_rows(std::int64_t block, std::int64_t rows) {
  return {block * kChannelBlockRows, std::min(rows, (block + 1) * kChannelBlockRows)};
}

// own [K, columns] = sums over a block's rows that `wanted` takes; add(r, c, sums) adds the terms of one element.
template <int K, class Value, class Wanted, class Add>
void block_sums(Rows rows, std::int64_t columns, const Wanted& wanted, const Add& add, double* own) {
  const auto scratch = memory::allocate(Device::cpu, std::size_t(K * columns) * sizeof(Value));
  Value* chunk = static_cast<Value*>(scratch.get());
  std::fill_n(own, K * columns, 0.0);
  for (std::int64_t first = rows.begin; first < rows.end; first += kChannelChunkRows) {
    std::fill_n(chunk, K * columns, Value(0));
    for (std::int64_t r = first; r < std::min(rows.end, first + kChannelChunkRows); ++r) {
      if (!wanted(r)) continue;
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

// The mean is subtracted in two steps, first a row of the block, so that no digits of far-away channels are lost.
template <class T>
void block_moments(const ChannelMoments<T>& p, std::int64_t block) {
  using Value = compute_t<T>;
  const Rows rows = block_rows(block, p.rows);
  const std::int64_t columns = p.columns;
  const T* x = p.x;
  const auto real = [&p](std::int64_t r) { return p.real(r); };
  double n = 0;
  std::int64_t first = rows.end;
  for (std::int64_t r = rows.end - 1; r >= rows.begin; --r)
    if (p.real(r)) first = r, ++n;
  p.counts[block] = n;
  double* own = p.partials + 2 * block * columns;
  if (!p.variance) {
    block_sums<1, Value>(
        rows, columns, real,
        [=](std::int64_t r, std::int64_t c, Value(&sums)[1]) {
          const Value v = x[r * columns + c];
          sums[0] += v * v;
        },
        own + columns);
    return;
  }
  const T* shift = x + (n == 0 ? rows.begin : first) * columns;
  block_sums<2, Value>(
      rows, columns, real,
      [=](std::int64_t r, std::int64_t c, Value(&sums)[2]) {
        const Value d = Value(x[r * columns + c]) - Value(shift[c]);
        sums[0] += d;
        sums[1] += d * d;
      },
      own);
  for (std::int64_t c = 0; c < columns && n > 0; ++c) {
    own[columns + c] -= own[c] * own[c] / n;
    own[c] += n * double(Value(shift[c]));
  }
}

// body(begin, end, part) for consecutive channels.
template <class Body>
void for_channels(std::int64_t columns, std::int64_t work_per_channel, const Body& body) {
#pragma omp parallel for schedule(static) if (columns * work_per_channel >= 4096)
  for (std::int64_t part = 0; part < (columns + kChannels - 1) / kChannels; ++part)
    body(part * kChannels, std::min(columns, (part + 1) * kChannels), part);
}

}  // namespace

template <class T>
void channel_norm_cpu(const ChannelMoments<T>& p) {
  const std::int64_t blocks = channel_blocks(p.rows);
#pragma omp parallel for schedule(static) if (p.rows * p.columns >= kParallelElements)
  for (std::int64_t b = 0; b < blocks; ++b) block_moments(p, b);
  double n = 0;
  for (std::int64_t b = 0; b < blocks; ++b) n += p.counts[b];
  *p.count = n;
  for_channels(p.columns, blocks, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    const ChannelMoments<T> local = p;
    double *mean = p.moments, *squares = p.moments + p.columns;
    std::fill(mean + begin, mean + end, 0.0);
    std::fill(squares + begin, squares + end, 0.0);
    for (std::int64_t b = 0; b < blocks && local.variance; ++b)
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) mean[c] += local.sum(b)[c];
    for (std::int64_t c = begin; c < end; ++c) mean[c] /= n;
    for (std::int64_t b = 0; b < blocks; ++b)
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) squares[c] += local.squares_around(b, c, mean[c]);
    for (std::int64_t c = begin; c < end; ++c) squares[c] /= n;  // [CN-1]
  });
}

template <class T>
void channel_norm_cpu(const ChannelForwardStep<T>& p) {
  constexpr std::int64_t kLogarithm = 16;  // what a channel's window costs, in additions
  const std::int64_t parts = (p.columns + kChannels - 1) / kChannels;
  LayerTotals layer;
  if (p.filters() && p.options.granularity != Granularity::channel) {
    std::vector<LayerTotals> totals(parts);
    for_channels(p.columns, kLogarithm, [&](std::int64_t begin, std::int64_t end, std::int64_t part) {
      for (std::int64_t c = begin; c < end; ++c) totals[part].add(p.propose(c));
    });
    for (const LayerTotals& part : totals) layer.add(part);
  }
  std::vector<std::uint8_t> skipped(parts);
  for_channels(p.columns, kLogarithm, [&](std::int64_t begin, std::int64_t end, std::int64_t part) {
    for (std::int64_t c = begin; c < end; ++c) skipped[part] |= p.decide(c, layer);
  });
  p.finish(std::count(skipped.begin(), skipped.end(), 1) > 0);
}

template <class T>
void channel_norm_cpu(const ChannelApply<T>& p) {
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) {
    const std::int64_t begin = r * p.columns;
    write_cpu(p.y, begin, begin + p.columns, bypasses_cache<T>(p.rows * p.columns),
              [local = p, begin](std::int64_t i) { return local.value(i, i - begin); });
  });
}

template <class T>
void channel_norm_cpu(const ChannelSums<T>& p) {
  using Value = compute_t<T>;
  const std::int64_t blocks = channel_blocks(p.rows), columns = p.columns;
  const T *dy = p.dy, *x = p.x;
  const Value* mean = p.mean;
  const auto every = [](std::int64_t) { return true; };
#pragma omp parallel for schedule(static) if (p.rows * p.columns >= kParallelElements)
  for (std::int64_t b = 0; b < blocks; ++b) {
    double* own = p.partials + 3 * b * columns;
    block_sums<2, Value>(
        block_rows(b, p.rows), columns, every,
        [=](std::int64_t r, std::int64_t c, Value(&sums)[2]) {
          const Value up = dy[r * columns + c];
          sums[0] += up;
          sums[1] += up * (Value(x[r * columns + c]) - mean[c]);
        },
        own);
    if (!p.power) continue;
    block_sums<1, Value>(
        block_rows(b, p.rows), columns, every,
        [=](std::int64_t r, std::int64_t c, Value(&sums)[1]) {
          const Value v = Value(x[r * columns + c]) - mean[c];
          sums[0] += v * v;
        },
        own + 2 * columns);
  }
  for_channels(columns, blocks, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    for (int k = 0; k < (p.power ? 3 : 2); ++k) {
      double* sums = p.sums + k * columns;
      std::fill(sums + begin, sums + end, 0.0);
      for (std::int64_t b = 0; b < blocks; ++b) {
        const double* own = p.partials + (3 * b + k) * columns;
#pragma omp simd
        for (std::int64_t c = begin; c < end; ++c) sums[c] += own[c];
      }
    }
  });
}

template <class T>
void channel_norm_cpu(const ChannelBackwardStep<T>& p) {
  for_channels(p.columns, 1, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    for (std::int64_t c = begin; c < end; ++c) p.decide(c);
  });
}

template <class T>
void channel_norm_cpu(const ChannelGradient<T>& p) {
  using Value = compute_t<T>;
  for_rows_cpu(p.rows, p.columns, [&p](std::int64_t r) {
    const std::int64_t columns = p.columns;
    const GradOut<T> dx{p.dx.data + r * columns, p.dx.mode};
    const T *dy = p.dy ? p.dy + r * columns : nullptr, *x = p.x + r * columns;
    const Value *mean = p.mean, *a = p.coefficients, *b = a + columns, *e = b + columns;
    const bool corrected = !p.mask || p.mask[r];
    const auto write = [&](const auto& value) {
      write_cpu(dx, 0, columns, bypasses_cache<T>(p.rows * columns), value);
    };
    if (!p.dy)
      write([=](std::int64_t c) { return corrected ? -b[c] - e[c] * (Value(x[c]) - mean[c]) : Value(0); });
    else if (!corrected)
      write([=](std::int64_t c) { return a[c] * Value(dy[c]); });
    else
      write([=](std::int64_t c) { return a[c] * Value(dy[c]) - b[c] - e[c] * (Value(x[c]) - mean[c]); });  // [CN-2]
  });
}

#define FOLDGRAD_INSTANTIATE(T)                                  \
  template void channel_norm_cpu(const ChannelMoments<T>&);      \
  template void channel_norm_cpu(const ChannelForwardStep<T>&);  \
  template void channel_norm_cpu(const ChannelApply<T>&);        \
  template void channel_norm_cpu(const ChannelSums<T>&);         \
  template void channel_norm_cpu(const ChannelBackwardStep<T>&); \
  template void channel_norm_cpu(const ChannelGradient<T>&);
FOLDGRAD_INSTANTIATE(float)
FOLDGRAD_INSTANTIATE(double)
FOLDGRAD_INSTANTIATE(bf16)
#undef FOLDGRAD_INSTANTIATE

}  // namespace foldgrad
