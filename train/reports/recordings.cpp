#include "train/reports/recordings.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "train/analyses/pnac.h"
#include "train/runs/recorded_phases.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kWindow = 32;  // that of `analyze pnac` by default

std::int64_t window_of(const std::vector<RecordedPhase>& phases) {
  std::int64_t window = kWindow;
  for (const RecordedPhase& phase : phases) window = std::min(window, phase.recording.rows());
  return window < std::int64_t(kLeastNormalitySample) ? 0 : window;
}

using NoiseLevels = std::map<std::pair<std::int64_t, std::int64_t>, double>;  // by iterations and channels

ordered_json pnac_of(const std::vector<RecordedPhase>& phases, std::size_t site, std::int64_t window,
                     NoiseLevels& noise) {
  ordered_json percent;
  for (const auto& [name, path, recording] : phases) {
    const SiteRecording& s = recording.sites[site];
    const auto [control, added] = noise.try_emplace({recording.rows(), s.channels});
    if (added) control->second = mean_of(pnac_of_noise(recording.rows(), s.channels, window));
    percent["q " + name] = mean_of(pnac(s.q, s.channels, window));
    if (!s.G.empty()) percent["G " + name] = mean_of(pnac(s.G, s.channels, window));
    percent["noise " + name] = control->second;
  }
  return percent;
}

bool all_channels_fit(const std::vector<RecordedPhase>& phases) {
  std::size_t bytes = 0;
  for (const RecordedPhase& phase : phases)
    for (const SiteRecording& s : phase.recording.sites)
      bytes += (s.q.size() + s.G.size()) * sizeof(float) + s.flag.size();
  return std::int64_t(bytes) <= kMostTraceBytes;
}

std::vector<std::int64_t> traced_channels(const Recording& first, std::size_t site, bool all) {
  const SiteRecording& s = first.sites[site];
  if (!all) {
    const auto [least, greatest] = outstanding_channels(s, std::min(kTraceWindow, first.rows()));
    const std::set<std::int64_t> two = {least, greatest};
    return {two.begin(), two.end()};
  }
  std::vector<std::int64_t> channels(s.channels);
  std::iota(channels.begin(), channels.end(), 0);
  return channels;
}

template <class T>
std::string columns_in_base64(const std::vector<T>& values, std::int64_t width,
                              const std::vector<std::int64_t>& columns) {
  std::vector<T> chosen;
  for (std::size_t row = 0; row < values.size(); row += width)
    for (const std::int64_t column : columns) chosen.push_back(values[row + column]);
  return base64({reinterpret_cast<const char*>(chosen.data()), chosen.size() * sizeof(T)});
}

ordered_json trace_of(const std::vector<RecordedPhase>& phases, std::size_t site, bool all_channels) {
  const std::vector<std::int64_t> channels = traced_channels(phases[0].recording, site, all_channels);
  ordered_json trace{{"channels", channels}};
  for (const auto& [name, path, recording] : phases) {
    const SiteRecording& s = recording.sites[site];
    trace["q " + name] = columns_in_base64(s.q, s.channels, channels);
    if (!s.G.empty()) trace["G " + name] = columns_in_base64(s.G, s.channels, channels);
    if (!s.flag.empty()) trace["flag " + name] = columns_in_base64(s.flag, s.channels, channels);
  }
  return trace;
}

}  // namespace

ordered_json recordings_json(const std::string& run) {
  const std::vector<RecordedPhase> phases = recorded_phases(run);
  if (phases.empty()) return nullptr;
  const Recording& first = phases[0].recording;
  const std::int64_t window = window_of(phases);
  ordered_json all{{"normalizer", first.normalizer}, {"window", window}, {"trace_window", kTraceWindow}};
  for (const auto& [name, path, recording] : phases)
    all["phases"].push_back({{"name", name},
                             {"first", recording.updates.front()},
                             {"last", recording.updates.back()},
                             {"windows", window > 0 ? recording.rows() - window + 1 : 0},
                             {"updates", recording.updates}});
  NoiseLevels noise;
  const bool all_channels = all_channels_fit(phases);
  for (std::size_t i = 0; i < first.sites.size(); ++i) {
    ordered_json site{{"site", first.sites[i].site}, {"channels", first.sites[i].channels}};
    if (window > 0) site["pnac"] = pnac_of(phases, i, window, noise);
    site["trace"] = trace_of(phases, i, all_channels);
    all["sites"].push_back(std::move(site));
  }
  return all;
}

}  // namespace foldgrad
