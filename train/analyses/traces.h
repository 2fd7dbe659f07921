// Single channels of a recording.
#pragma once
#include <utility>
#include <vector>

#include "train/analyses/recording.h"

namespace foldgrad {

constexpr std::int64_t kTraceWindow = 4;  // UN's own by default

// Returns one channel of values [rows, channels].
std::vector<double> channel_values(const std::vector<float>& values, std::int64_t channels, std::int64_t channel);

// The channels whose q has the least and the greatest AM/GM of the last `window` values, in the mean over the
// iterations. Throws as moving_means() does.
std::pair<std::int64_t, std::int64_t> outstanding_channels(const SiteRecording& site, std::int64_t window);

}  // namespace foldgrad
