#include "train/reports/recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "engine/files/file.h"
#include "train/analyses/pnac.h"
#include "train/config/config.h"
#include "train/runs/directory.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

void require_model_of(const std::string& run, const std::vector<RecordedPhase>& phases) {
  const RecordedPhase& first = phases.front();
  for (const RecordedPhase& phase : phases) {
    if (phase.recording.rows() == 0) throw FileError(phase.path, "has no iterations");
    if (!phase.recording.like(first.recording))
      throw FileError(phase.path, fmt::format("is a recording of a different model than {}.safetensors", first.name));
  }
  const std::string config = RunDirectory(run).config();
  if (!file_exists(config)) return;
  const std::string norm = read_config(config).blocks().normalizer;
  if (norm != first.recording.normalizer)
    throw FileError(
        first.path,
        fmt::format("is not a recording of this run's model: its normalizer is {}, but the run's config.toml has {}",
                    first.recording.normalizer, norm));
}

constexpr std::int64_t kWindow = 32;  // also the default of foldgrad.analyze

std::int64_t window_of(const std::vector<RecordedPhase>& phases) {
  std::int64_t window = kWindow;
  for (const RecordedPhase& phase : phases) window = std::min(window, phase.recording.rows());
  return window < std::int64_t(kLeastNormalitySample) ? 0 : window;
}

bool all_channels_fit(const std::vector<RecordedPhase>& phases) {
  constexpr std::size_t kMostTraceBytes = std::size_t(16) << 20;
  std::size_t bytes = 0;
  for (const RecordedPhase& phase : phases)
    for (const SiteRecording& s : phase.recording.sites)
      bytes += (s.q.size() + s.G.size()) * sizeof(float) + s.flag.size();
  return bytes <= kMostTraceBytes;
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

// Means of pnac_of_noise(), by number of iterations and channels.
using NoiseMeans = std::map<std::pair<std::int64_t, std::int64_t>, double>;

// Returns the mean PNAC of a site in each phase (recordings_json()). `noise` caches the means for noise.
ordered_json pnac_json(const std::vector<RecordedPhase>& phases, std::size_t site, std::int64_t window,
                       NoiseMeans& noise) {
  ordered_json means;
  for (const auto& [name, path, recording] : phases) {
    const SiteRecording& s = recording.sites[site];
    means["q " + name] = mean_of(pnac(s.q, s.channels, window));
    if (!s.G.empty()) means["G " + name] = mean_of(pnac(s.G, s.channels, window));
    const auto [mean, added] = noise.try_emplace({recording.rows(), s.channels});
    if (added) mean->second = mean_of(pnac_of_noise(recording.rows(), s.channels, window));
    means["noise " + name] = mean->second;
  }
  return means;
}

}  // namespace

std::vector<RecordedPhase> recorded_phases(const std::string& run) {
  std::vector<RecordedPhase> phases;
  for (const char* name : {"begin", "end"}) {
    const std::string path = fmt::format("{}/{}.safetensors", RunDirectory(run).statistics(), name);
    if (file_exists(path)) phases.push_back({name, path, read_recording(path)});
  }
  if (!phases.empty()) require_model_of(run, phases);
  return phases;
}

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
  NoiseMeans noise;
  const bool all_channels = all_channels_fit(phases);
  for (std::size_t i = 0; i < first.sites.size(); ++i) {
    ordered_json site{{"site", first.sites[i].site}, {"channels", first.sites[i].channels}};
    if (window > 0) site["pnac"] = pnac_json(phases, i, window, noise);
    site["trace"] = trace_of(phases, i, all_channels);
    all["sites"].push_back(std::move(site));
  }
  return all;
}

}  // namespace foldgrad
