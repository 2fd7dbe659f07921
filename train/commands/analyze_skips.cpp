#include <algorithm>

#include "engine/files/file.h"
#include "train/commands/analyze.h"
#include "train/config/config.h"
#include "train/reports/report.h"
#include "train/reports/run_log.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

// Returns the last validation up to one third, two thirds and all of the training, without thirds that have none.
std::vector<const ordered_json*> thirds_of(const std::vector<const ordered_json*>& layers) {
  const auto step_of = [](const ordered_json* e) { return e->at("step").get<std::int64_t>(); };
  std::vector<const ordered_json*> chosen;
  for (const std::int64_t third : {1, 2, 3}) {
    const ordered_json* last = nullptr;
    for (const ordered_json* e : layers)
      if (3 * step_of(e) <= third * step_of(layers.back())) last = e;
    if (last && (chosen.empty() || chosen.back() != last)) chosen.push_back(last);
  }
  return chosen;
}

// Throws FileError for a log without a validation, or whose normalizers have no outlier test.
ordered_json skips_of(const RunLog& log) {
  const std::vector<const ordered_json*> layers = log.of_kind("layers");
  const std::string path = RunDirectory(log.path).log();
  if (layers.empty()) throw FileError(path, "has no event \"layers\": the run has not been validated yet");
  const std::vector<const ordered_json*> chosen = thirds_of(layers);
  // The first iteration that can be skipped, as far as the configuration says.
  const std::int64_t first =
      std::max<std::int64_t>(1, norm_warmup(read_config(RunDirectory(log.path).config()).blocks()));
  ordered_json all{{"run", log.path}, {"steps", ordered_json::array()}, {"first_filtered", first}};
  for (const ordered_json* e : chosen) all["steps"].push_back(e->at("step"));
  for (const auto& [name, site] : chosen.back()->at("normalizers").items()) {
    if (!site.contains("skips")) continue;
    std::vector<std::int64_t> skips;
    for (const ordered_json* e : chosen)
      skips.push_back(std::int64_t(number(e->at("normalizers").value(name, ordered_json()), "skips")));
    const std::int64_t iterations = std::int64_t(number(site, "iterations")), filtered = iterations - first + 1;
    all["sites"].push_back({{"site", name},
                            {"skips", skips},
                            {"iterations", iterations},
                            {"percent", filtered > 0 ? 100.0 * double(skips.back()) / double(filtered) : 0}});
  }
  if (!all.contains("sites")) throw FileError(path, "reports no skips: the run's normalizers have no outlier test");
  return all;
}

std::string table_of(const ordered_json& all) {
  Rows rows{{"site"}};
  for (const ordered_json& step : all["steps"]) rows[0].push_back("up to " + step.dump());
  rows[0].push_back(fmt::format("% from {}", all["first_filtered"].get<std::int64_t>()));
  std::vector<std::int64_t> totals(all["steps"].size());
  for (const ordered_json& site : all["sites"]) {
    rows.push_back({site["site"].get<std::string>()});
    for (std::size_t i = 0; i < totals.size(); ++i) {
      const auto skips = site["skips"][i].get<std::int64_t>();
      totals[i] += skips;
      rows.back().push_back(fmt::format("{}", skips));
    }
    rows.back().push_back(fmt::format("{:.2f}", site["percent"].get<double>()));
  }
  rows.push_back({"all"});
  for (const std::int64_t total : totals) rows.back().push_back(fmt::format("{}", total));
  rows.back().push_back("");
  return aligned(rows);
}

}  // namespace

std::vector<Answer> analyze_skips(const AnalyzeOptions& o) {
  std::vector<Answer> all;
  for (const RunLog& log : read_run_logs(o.runs)) {
    ordered_json skips = skips_of(log);
    all.push_back({fmt::format("{}: iterations skipped, by update\n{}", log.name, table_of(skips)), std::move(skips)});
  }
  return all;
}

}  // namespace foldgrad
