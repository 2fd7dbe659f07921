#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/normalizers/normalizer.h"
#include "train/commands/analyze.h"
#include "train/commands/analyze_runs.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/reports/aligned.h"
#include "train/reports/plot.h"
#include "train/reports/skip_table.h"
#include "train/runs/directory.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

// The first iteration that can be skipped, as far as the configuration says.
std::int64_t first_filtered(const std::string& run) {
  const ExperimentConfig config = read_config(RunDirectory(run).config());
  const NormalizerInfo& info = normalizer_info(config.blocks().normalizer);
  const NormalizerOptions chosen(info.name, info.options, config.blocks().normalizer_options);
  const bool warms_up =
      std::ranges::any_of(info.options, [](const NormalizerOption& option) { return option.name == "warmup"; });
  return warms_up ? std::max(chosen.integer("warmup"), std::int64_t(1)) : 1;
}

// Of the iterations from the first that can be skipped on; 0 where there are none.
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

Plot plot_of(const RunLog& log, const SkipTable& table) {
  Plot plot{log.name + ": skips", "normalizer", "skips", false, {}};
  for (std::size_t i = 0; i < table.steps.size(); ++i) {
    Series series{fmt::format("up to {}", table.steps[i]), {}};
    for (std::size_t k = 0; k < table.sites.size(); ++k)
      series.points.emplace_back(double(k + 1), double(table.sites[k].skips[i]));
    plot.series.push_back(std::move(series));
  }
  return plot;
}

nlohmann::ordered_json json_of(const RunLog& log, const SkipTable& table, std::int64_t first) {
  nlohmann::ordered_json all{{"run", log.path}, {"steps", table.steps}, {"first_filtered", first}};
  for (const SkipTable::Site& site : table.sites)
    all["sites"].push_back({{"site", site.name},
                            {"skips", site.skips},
                            {"iterations", site.iterations},
                            {"percent", percent_of(site, first)}});
  return all;
}

}  // namespace

int analyze_skips(const AnalyzeOptions& o) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string text;
  std::vector<Plot> plots;
  for (const RunLog& log : read_run_logs(o.runs)) {
    const SkipTable table = skip_table(log);
    const std::int64_t first = first_filtered(log.path);
    text += (text.empty() ? "" : "\n") + table_of(log, table, first);
    all.push_back(json_of(log, table, first));
    plots.push_back(plot_of(log, table));
  }
  if (!o.plot.empty()) draw_into(o.plot, plots, 1);
  if (o.json)
    print_json(all);
  else
    fmt::print("{}", text);
  return kExitOk;
}

}  // namespace foldgrad
