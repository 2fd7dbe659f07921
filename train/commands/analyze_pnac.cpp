#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "train/analyses/pnac.h"
#include "train/commands/analyze.h"
#include "train/commands/analyze_runs.h"
#include "train/commands/commands.h"
#include "train/reports/aligned.h"
#include "train/reports/plot.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

// A percentage for every iteration of a phase from the window-th on.
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

Plot plot_of(const RecordedRun& run, const std::vector<PnacSite>& sites, std::int64_t window) {
  Plot plot{fmt::format("{}: PNAC, window {}", run.name, window), "normalizer", "percent", false, {}};
  for (std::size_t k = 0; k < sites[0].curves.size(); ++k) {
    Series series{sites[0].curves[k].name, {}};
    for (std::size_t i = 0; i < sites.size(); ++i)
      if (!sites[i].curves[k].values.empty())
        series.points.emplace_back(double(i + 1), mean_of(sites[i].curves[k].values));
    plot.series.push_back(std::move(series));
  }
  return plot;
}

// One for each site and phase.
std::vector<Plot> density_plots(const RecordedRun& run, const std::vector<PnacSite>& sites) {
  std::vector<Plot> plots;
  for (const PnacSite& site : sites)
    for (std::size_t p = 0; p < run.phases.size(); ++p) {
      Plot plot{site.site + ", " + run.phases[p].name, "PNAC in percent", "density", false, {}};
      for (std::size_t k = 3 * p; k < 3 * p + 3; ++k) {
        const Density d = density_of(site.curves[k].values);
        Series series{site.curves[k].name, {}};
        for (std::size_t i = 0; i < d.x.size(); ++i) series.points.emplace_back(d.x[i], d.y[i]);
        plot.series.push_back(std::move(series));
      }
      plots.push_back(std::move(plot));
    }
  return plots;
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

int analyze_pnac(const AnalyzeOptions& o) {
  const std::int64_t window = o.window > 0 ? o.window : 32;
  NoiseControls controls(window);
  std::string text;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::vector<Plot> plots, densities;
  std::size_t columns = 1;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::vector<PnacSite> sites = pnac_of(run, window, controls);
    text += (text.empty() ? "" : "\n") + table_of(run, sites, window);
    all.push_back(json_of(run, sites, window));
    plots.push_back(plot_of(run, sites, window));
    const std::vector<Plot> more = density_plots(run, sites);
    densities.insert(densities.end(), more.begin(), more.end());
    columns = run.phases.size();
  }
  if (!o.plot.empty()) draw_into(o.plot, plots, 1);
  if (!o.density.empty()) draw_into(o.density, densities, columns);
  if (o.json)
    print_json(all);
  else
    fmt::print("{}", text);
  return kExitOk;
}

}  // namespace foldgrad
