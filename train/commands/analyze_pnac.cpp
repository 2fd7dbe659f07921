#include <fmt/format.h>

#include <map>

#include "train/analyses/pnac.h"
#include "train/commands/analyze.h"
#include "train/reports/aligned.h"

namespace foldgrad {
namespace {

// The percentage at every iteration of a phase from the window-th on.
struct PnacCurve {
  std::string name;  // "q begin", ...
  std::vector<double> values;
};

struct PnacSite {
  std::string site;
  std::int64_t channels;
  std::vector<PnacCurve> curves;
};

// The control is the same for sites of one width.
class NoiseControls {
 public:
  explicit NoiseControls(std::int64_t window) : window_(window) {}
  const std::vector<double>& of(std::int64_t rows, std::int64_t channels) {
    std::vector<double>& known = known_[{rows, channels}];
    if (known.empty()) known = pnac_of_noise(rows, channels, window_);
    return known;
  }

 private:
  std::int64_t window_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> known_;
};

std::vector<PnacSite> pnac_of(const RecordedRun& run, std::int64_t window, NoiseControls& controls) {
  std::vector<PnacSite> sites;
  for (std::size_t i = 0; i < run.phases[0].recording.sites.size(); ++i) {
    const SiteRecording& first = run.phases[0].recording.sites[i];
    PnacSite site{first.site, first.channels, {}};
    for (const auto& [phase, path, recording] : run.phases) {
      const SiteRecording& s = recording.sites[i];
      site.curves.push_back({"q " + phase, pnac(s.q, s.channels, window)});
      site.curves.push_back({"G " + phase, s.G.empty() ? std::vector<double>() : pnac(s.G, s.channels, window)});
      site.curves.push_back({"noise " + phase, controls.of(recording.rows(), s.channels)});
    }
    sites.push_back(std::move(site));
  }
  return sites;
}

std::string table_of(const RecordedRun& run, const std::vector<PnacSite>& sites, std::int64_t window) {
  std::string text =
      fmt::format("{}: {}, PNAC in percent, window {}", run.name, run.phases[0].recording.normalizer, window);
  for (const auto& [phase, path, recording] : run.phases)
    text += fmt::format(", {}: {} windows in updates {} to {}", phase, recording.rows() - window + 1,
                        recording.updates.front(), recording.updates.back());
  Rows rows{{"site", "channels"}};
  for (const PnacCurve& curve : sites[0].curves) rows[0].push_back(curve.name);
  for (const PnacSite& site : sites) {
    rows.push_back({site.site, fmt::format("{}", site.channels)});
    for (const PnacCurve& curve : site.curves)
      rows.back().push_back(curve.values.empty() ? "-" : fmt::format("{:.1f}", mean_of(curve.values)));
  }
  return text + "\n" + aligned(rows);
}

nlohmann::ordered_json json_of(const RecordedRun& run, const std::vector<PnacSite>& sites, std::int64_t window) {
  nlohmann::ordered_json all{{"run", run.path}, {"normalizer", run.phases[0].recording.normalizer}, {"window", window}};
  for (const PnacSite& site : sites) {
    nlohmann::ordered_json one{{"site", site.site}, {"channels", site.channels}};
    for (const PnacCurve& curve : site.curves)
      one[curve.name] = {{"mean", mean_of(curve.values)}, {"values", curve.values}};
    all["sites"].push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::vector<Analyzed> analyze_pnac(const AnalyzeOptions& o) {
  const std::int64_t window = o.window > 0 ? o.window : 32;
  NoiseControls controls(window);
  std::vector<Analyzed> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::vector<PnacSite> sites = pnac_of(run, window, controls);
    all.push_back({table_of(run, sites, window), json_of(run, sites, window)});
  }
  return all;
}

}  // namespace foldgrad
