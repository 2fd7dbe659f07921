#include "train/analyses/traces.h"

#include <algorithm>
#include <cmath>

#include "train/analyses/pnac.h"

namespace foldgrad {

std::vector<double> channel_values(const std::vector<float>& values, std::int64_t channels, std::int64_t channel) {
  std::vector<double> found;
  for (std::size_t i = channel; i < values.size(); i += channels) found.push_back(values[i]);
  return found;
}

std::pair<std::int64_t, std::int64_t> outstanding_channels(const SiteRecording& site, std::int64_t window) {
  std::vector<double> ratios;
  for (std::int64_t c = 0; c < site.channels; ++c) {
    const MovingMeans m = moving_means(channel_values(site.q, site.channels, c), window);
    double sum = 0;
    for (std::size_t i = 0; i < m.arithmetic.size(); ++i) sum += m.arithmetic[i] / m.geometric[i];
    ratios.push_back(std::isfinite(sum) ? sum : 0);
  }
  const auto [least, greatest] = std::ranges::minmax_element(ratios);
  return {least - ratios.begin(), greatest - ratios.begin()};
}

}  // namespace foldgrad
