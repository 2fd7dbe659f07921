#include <algorithm>

#include "engine/files/file.h"
#include "models/normalizers/normalizer.h"
#include "train/commands/analyze.h"
#include "train/config/config.h"
#include "train/reports/aligned.h"
#include "train/reports/run_log.h"
#include "train/runs/directory.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

struct SkipTable {
  std::vector<std::int64_t> steps;  // the last validation up to one third, two thirds and all of the training
  struct Site {
    std::string name;
    std::vector<std::int64_t> skips;  // up to each of these steps
    std::int64_t iterations;          // at the last of them
  };
  std::vector<Site> sites;  // in the order of the log
};

std::int64_t count_of(const ordered_json& site, const char* key) {
  const auto found = site.find(key);
  return found != site.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

// Thirds without a validation are left out. Throws FileError for a log without a validation, or whose normalizers have
// no outlier test.
SkipTable skip_table(const RunLog& log) {
  const std::vector<const ordered_json*> layers = log.of_kind("layers");
  const std::string path = RunDirectory(log.path).log();
  if (layers.empty()) throw FileError(path, "has no event \"layers\": the run has not been validated yet");
  const auto step_of = [](const ordered_json* e) { return e->at("step").get<std::int64_t>(); };
  const std::int64_t steps = step_of(layers.back());
  SkipTable table;
  std::vector<const ordered_json*> chosen;
  for (const std::int64_t third : {1, 2, 3}) {
    const ordered_json* last = nullptr;
    for (const ordered_json* e : layers)
      if (3 * step_of(e) <= third * steps) last = e;
    if (!last || (!chosen.empty() && chosen.back() == last)) continue;
    chosen.push_back(last);
    table.steps.push_back(step_of(last));
  }
  for (const auto& [name, site] : chosen.back()->at("normalizers").items()) {
    if (!site.contains("skips")) continue;
    SkipTable::Site row{name, {}, count_of(site, "iterations")};
    for (const ordered_json* e : chosen) {
      const ordered_json& then = e->at("normalizers");
      row.skips.push_back(then.contains(name) ? count_of(then[name], "skips") : 0);
    }
    table.sites.push_back(std::move(row));
  }
  if (table.sites.empty()) throw FileError(path, "reports no skips: the run's normalizers have no outlier test");
  return table;
}

// The first iteration that can be skipped, as far as the configuration says.
std::int64_t first_filtered(const std::string& run) {
  const ExperimentConfig config = read_config(RunDirectory(run).config());
  const NormalizerInfo& info = normalizer_info(config.blocks().normalizer);
  const NormalizerOptions chosen(info.name, info.options, config.blocks().normalizer_options);
  const bool warms_up =
      std::ranges::any_of(info.options, [](const NormalizerOption& option) { return option.name == "warmup"; });
  return warms_up ? std::max(chosen.integer("warmup"), std::int64_t(1)) : 1;
}

// The share of the iterations from the first that can be skipped on; 0 where there are none.
double percent_of(const SkipTable::Site& site, std::int64_t first) {
  const std::int64_t filtered = site.iterations - first + 1;
  return filtered > 0 ? 100.0 * double(site.skips.back()) / double(filtered) : 0;
}

std::int64_t total_of(const SkipTable& table, std::size_t third) {
  std::int64_t total = 0;
  for (const SkipTable::Site& site : table.sites) total += site.skips[third];
  return total;
}

std::string table_of(const RunLog& log, const SkipTable& table, std::int64_t first) {
  Rows rows{{"site"}};
  for (const std::int64_t step : table.steps) rows[0].push_back(fmt::format("up to {}", step));
  rows[0].push_back(fmt::format("% from {}", first));
  for (const SkipTable::Site& site : table.sites) {
    rows.push_back({site.name});
    for (const std::int64_t skips : site.skips) rows.back().push_back(fmt::format("{}", skips));
    rows.back().push_back(fmt::format("{:.2f}", percent_of(site, first)));
  }
  rows.push_back({"all"});
  for (std::size_t i = 0; i < table.steps.size(); ++i) rows.back().push_back(fmt::format("{}", total_of(table, i)));
  rows.back().push_back("");
  return fmt::format("{}: iterations skipped, by update\n{}", log.name, aligned(rows));
}

ordered_json json_of(const RunLog& log, const SkipTable& table, std::int64_t first) {
  ordered_json all{{"run", log.path}, {"steps", table.steps}, {"first_filtered", first}};
  for (const SkipTable::Site& site : table.sites)
    all["sites"].push_back({{"site", site.name},
                            {"skips", site.skips},
                            {"iterations", site.iterations},
                            {"percent", percent_of(site, first)}});
  return all;
}

}  // namespace

std::vector<Answer> analyze_skips(const AnalyzeOptions& o) {
  std::vector<Answer> all;
  for (const RunLog& log : read_run_logs(o.runs)) {
    const SkipTable table = skip_table(log);
    const std::int64_t first = first_filtered(log.path);
    all.push_back({table_of(log, table, first), json_of(log, table, first)});
  }
  return all;
}

}  // namespace foldgrad
