#include "train/reports/recordings.h"

#include <algorithm>
#include <map>

#include "train/analyses/normality.h"
#include "train/analyses/pnac.h"
#include "train/runs/recorded_phases.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kWindow = 32;  // that of `analyze pnac` by default

std::int64_t window_of(const std::vector<RecordedPhase>& phases) {
  std::int64_t window = kWindow;
  for (const RecordedPhase& phase : phases) window = std::min(window, phase.recording.rows());
  return window < std::int64_t(kLeastNormalitySample) ? 0 : window;
}

ordered_json sites_of(const std::vector<RecordedPhase>& phases, std::int64_t window) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> noise;  // the same for sites of one width
  ordered_json sites = ordered_json::array();
  for (std::size_t i = 0; i < phases[0].recording.sites.size(); ++i) {
    ordered_json percent;
    for (const auto& [name, path, recording] : phases) {
      const SiteRecording& s = recording.sites[i];
      const auto [control, added] = noise.try_emplace({recording.rows(), s.channels});
      if (added) control->second = mean_of(pnac_of_noise(recording.rows(), s.channels, window));
      percent["q " + name] = mean_of(pnac(s.q, s.channels, window));
      if (!s.G.empty()) percent["G " + name] = mean_of(pnac(s.G, s.channels, window));
      percent["noise " + name] = control->second;
    }
    const SiteRecording& site = phases[0].recording.sites[i];
    sites.push_back({{"site", site.site}, {"channels", site.channels}, {"pnac", percent}});
  }
  return sites;
}

}  // namespace

ordered_json recordings_json(const std::string& run) {
  const std::vector<RecordedPhase> phases = recorded_phases(run);
  if (phases.empty()) return nullptr;
  const std::int64_t window = window_of(phases);
  ordered_json all{{"normalizer", phases[0].recording.normalizer}, {"window", window}};
  for (const auto& [name, path, recording] : phases)
    all["phases"].push_back({{"name", name},
                             {"first", recording.updates.front()},
                             {"last", recording.updates.back()},
                             {"windows", window > 0 ? recording.rows() - window + 1 : 0}});
  all["sites"] = window > 0 ? sites_of(phases, window) : ordered_json::array();
  return all;
}

}  // namespace foldgrad
