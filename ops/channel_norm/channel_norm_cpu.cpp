#include <algorithm>
#include <vector>

#include "engine/cpu/rows.h"
#include "ops/channel_norm/channel_norm_kernels.h"

namespace foldgrad {
namespace {

// Calls body(c, part) for all channels, on all threads. A part is a fixed block of 64 channels, so results do not
// depend on the number of threads.
constexpr std::int64_t kChannelsPerPart = 64;
template <class Body>
void for_channels(std::int64_t channels, const Body& body) {
  constexpr std::int64_t kElements = 128;  // work per channel, in elements: the logarithms of its window are slow
  for_rows_cpu((channels + kChannelsPerPart - 1) / kChannelsPerPart, kChannelsPerPart * kElements, [&](auto part) {
    const std::int64_t first = part * kChannelsPerPart;
    for (std::int64_t c = first; c < std::min(channels, first + kChannelsPerPart); ++c) body(c, part);
  });
}

}  // namespace

template <class T>
void channel_norm_cpu(const ChannelForward<T>& p) {
  using channel_norm_math::SkipTerms;
  const std::int64_t parts = (p.columns + kChannelsPerPart - 1) / kChannelsPerPart;
  SkipTerms layer;
  if (p.layer_decides()) {
    std::vector<SkipTerms> terms(parts);
    for_channels(p.columns, [&](std::int64_t c, std::int64_t part) { terms[part].add(p.terms(c)); });
    for (const SkipTerms& part : terms) layer.add(part);
  }
  std::vector<std::uint8_t> skipped(parts);
  for_channels(p.columns, [&](std::int64_t c, std::int64_t part) { skipped[part] |= p.run(c, layer); });
  p.finish(std::count(skipped.begin(), skipped.end(), 1) > 0);
}

FOLDGRAD_INSTANTIATE(channel_norm_cpu, ChannelForward);

}  // namespace foldgrad
