// Analyses that are a number for each iteration of a phase: pnac and gradient.
#include <cmath>

#include "engine/files/file.h"
#include "train/analyses/pnac.h"
#include "train/commands/analyze.h"
#include "train/reports/report.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

struct Curve {
  std::string name;  // "q begin", ...
  std::vector<double> values;

  // Leaves out what is not a number; NaN where nothing is left.
  double mean() const {
    double sum = 0, count = 0;
    for (const double v : values)
      if (!std::isnan(v)) sum += v, ++count;
    return sum / count;
  }
};

struct SiteCurves {
  std::vector<std::string> cells;  // of the table, before the means
  ordered_json json;               // before the curves
  std::vector<Curve> curves = {};
};

// A row of means for each site. `json`: what comes before the sites.
Answer answer_of(std::string title, ordered_json json, std::vector<std::string> header, std::vector<SiteCurves> sites,
                 int digits) {
  for (const Curve& curve : sites[0].curves) header.push_back(curve.name);
  Rows rows{header};
  for (SiteCurves& site : sites) {
    for (const Curve& curve : site.curves) {
      const double mean = curve.mean();
      site.cells.push_back(std::isnan(mean) ? "-" : fmt::format("{:.{}f}", mean, digits));
      site.json[curve.name] = {{"mean", mean}, {"values", curve.values}};
    }
    rows.push_back(std::move(site.cells));
    json["sites"].push_back(std::move(site.json));
  }
  return {title + "\n" + aligned(rows), std::move(json)};
}

}  // namespace

std::vector<Answer> analyze_pnac(const AnalyzeOptions& o) {
  const std::int64_t window = o.window > 0 ? o.window : 32;
  NoiseCurves noise;
  std::vector<Answer> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::string& normalizer = run.first().normalizer;
    std::string title = fmt::format("{}: {}, PNAC in percent, window {}", run.name, normalizer, window);
    std::vector<SiteCurves> sites;
    for (const SiteRecording& s : run.first().sites)
      sites.push_back({{s.site, std::to_string(s.channels)}, {{"site", s.site}, {"channels", s.channels}}});
    for (const RecordedPhase& phase : run.phases) {
      for (std::size_t i = 0; i < sites.size(); ++i)
        for (auto& [name, percent] : pnac_curves(phase, i, window, noise)) sites[i].curves.push_back({name, percent});
      const std::vector<std::int64_t>& updates = phase.recording.updates;
      title += fmt::format(", {}: {} windows in updates {} to {}", phase.name, phase.recording.rows() - window + 1,
                           updates.front(), updates.back());
    }
    all.push_back(answer_of(title, {{"run", run.path}, {"normalizer", normalizer}, {"window", window}},
                            {"site", "channels"}, std::move(sites), 1));
  }
  return all;
}

std::vector<Answer> analyze_gradient(const AnalyzeOptions& o) {
  constexpr const char* kNumbers[kGradientNumbers] = {"cosine", "norm ratio", "lambda < 1"};
  std::vector<Answer> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::string& normalizer = run.first().normalizer;
    std::vector<SiteCurves> sites;
    for (std::size_t i = 0; i < run.first().sites.size(); ++i) {
      const std::string& name = run.first().sites[i].site;
      SiteCurves site{{name}, {{"site", name}}};
      for (const auto& [phase, path, recording] : run.phases)
        if (const std::vector<float>& dx = recording.sites[i].dx; !dx.empty())
          for (std::int64_t k = 0; k < kGradientNumbers; ++k)
            site.curves.push_back({fmt::format("{} {}", kNumbers[k], phase), channel_values(dx, kGradientNumbers, k)});
      if (site.curves.size() == kGradientNumbers * run.phases.size()) sites.push_back(std::move(site));
    }
    if (sites.empty())
      throw FileError(run.path,
                      fmt::format("has no gradients to compare: no site has SITE.dx, which is recorded of normalizers "
                                  "by mean squares over positions, such as un with mode = \"paper\"; this is {}",
                                  normalizer));
    all.push_back(answer_of(fmt::format("{}: {}, dx and the exact gradient", run.name, normalizer),
                            {{"run", run.path}, {"normalizer", normalizer}}, {"site"}, std::move(sites), 4));
  }
  return all;
}

}  // namespace foldgrad
