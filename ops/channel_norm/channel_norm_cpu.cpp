#include <algorithm>
#include <vector>

#include "ops/channel_norm/channel_norm_kernels.h"
#include "ops/channel_sums/channel_sums_cpu.h"

namespace foldgrad {

template <class T>
void channel_norm_cpu(const ChannelForward<T>& p) {
  using channel_norm_math::SkipTerms;
  constexpr std::int64_t kLogarithm = 16;  // what a channel's window costs, in additions
  const std::int64_t parts = channel_parts(p.columns);
  SkipTerms layer;
  if (p.layer_decides()) {
    std::vector<SkipTerms> terms(parts);
    for_channels_cpu(p.columns, kLogarithm, [&](std::int64_t begin, std::int64_t end, std::int64_t part) {
      for (std::int64_t c = begin; c < end; ++c) terms[part].add(p.terms(c));
    });
    for (const SkipTerms& part : terms) layer.add(part);
  }
  std::vector<std::uint8_t> skipped(parts);
  for_channels_cpu(p.columns, kLogarithm, [&](std::int64_t begin, std::int64_t end, std::int64_t part) {
    for (std::int64_t c = begin; c < end; ++c) skipped[part] |= p.run(c, layer);
  });
  p.finish(std::count(skipped.begin(), skipped.end(), 1) > 0);
}

FOLDGRAD_INSTANTIATE(channel_norm_cpu, ChannelForward);

}  // namespace foldgrad
