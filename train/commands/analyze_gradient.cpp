#include <fmt/format.h>

#include <cmath>

#include "engine/files/file.h"
#include "train/commands/analyze.h"
#include "train/reports/aligned.h"

namespace foldgrad {
namespace {

constexpr const char* kNumbers[kGradientNumbers] = {"cosine", "norm ratio", "lambda < 1"};

// One of the numbers over the rows of a phase.
struct GradientCurve {
  std::string name;  // "cosine begin", ...
  std::vector<double> values;

  // Leaves out what is not a number; NaN where nothing is left.
  double mean() const {
    double sum = 0, count = 0;
    for (const double v : values)
      if (!std::isnan(v)) sum += v, ++count;
    return sum / count;
  }
};

struct GradientSite {
  std::string site;
  std::vector<GradientCurve> curves;
};

std::vector<GradientSite> gradients_of(const RecordedRun& run) {
  std::vector<GradientSite> sites;
  for (std::size_t i = 0; i < run.phases[0].recording.sites.size(); ++i) {
    GradientSite site{run.phases[0].recording.sites[i].site, {}};
    for (const auto& [phase, path, recording] : run.phases) {
      const std::vector<float>& dx = recording.sites[i].dx;
      if (dx.empty()) continue;
      for (std::int64_t k = 0; k < kGradientNumbers; ++k) {
        GradientCurve curve{fmt::format("{} {}", kNumbers[k], phase), {}};
        for (std::size_t at = std::size_t(k); at < dx.size(); at += kGradientNumbers) curve.values.push_back(dx[at]);
        site.curves.push_back(std::move(curve));
      }
    }
    if (site.curves.size() == kGradientNumbers * run.phases.size()) sites.push_back(std::move(site));
  }
  if (sites.empty())
    throw FileError(run.path,
                    fmt::format("has no gradients to compare: no site has SITE.dx, which is recorded of normalizers by "
                                "mean squares over positions, such as un with mode = \"paper\"; this is {}",
                                run.phases[0].recording.normalizer));
  return sites;
}

std::string table_of(const RecordedRun& run, const std::vector<GradientSite>& sites) {
  Rows rows{{"site"}};
  for (const GradientCurve& curve : sites[0].curves) rows[0].push_back(curve.name);
  for (const GradientSite& site : sites) {
    rows.push_back({site.site});
    for (const GradientCurve& curve : site.curves)
      rows.back().push_back(std::isnan(curve.mean()) ? "-" : fmt::format("{:.4f}", curve.mean()));
  }
  return fmt::format("{}: {}, dx and the exact gradient\n{}", run.name, run.phases[0].recording.normalizer,
                     aligned(rows));
}

nlohmann::ordered_json json_of(const RecordedRun& run, const std::vector<GradientSite>& sites) {
  nlohmann::ordered_json all{{"run", run.path}, {"normalizer", run.phases[0].recording.normalizer}};
  for (const GradientSite& site : sites) {
    nlohmann::ordered_json one{{"site", site.site}};
    for (const GradientCurve& curve : site.curves) one[curve.name] = {{"mean", curve.mean()}, {"values", curve.values}};
    all["sites"].push_back(std::move(one));
  }
  return all;
}

}  // namespace

std::vector<Analyzed> analyze_gradient(const AnalyzeOptions& o) {
  std::vector<Analyzed> all;
  for (const RecordedRun& run : recorded_runs(o.runs)) {
    const std::vector<GradientSite> sites = gradients_of(run);
    all.push_back({table_of(run, sites), json_of(run, sites)});
  }
  return all;
}

}  // namespace foldgrad
