#include "train/reports/grid_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>

#include "engine/files/file.h"
#include "train/reports/report.h"
#include "train/runs/directory.h"

namespace foldgrad {

using nlohmann::ordered_json;

namespace {

// Returns the mean, with the standard deviation if there are several values.
std::string shown(const std::vector<double>& values, int decimals) {
  if (values.empty()) return "-";
  double mean = 0, variance = 0;
  for (const double v : values) mean += v / double(values.size());
  if (values.size() == 1) return fmt::format("{:.{}f}", mean, decimals);
  for (const double v : values) variance += (v - mean) * (v - mean) / double(values.size() - 1);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, decimals, std::sqrt(variance), decimals);
}

Rows table_of(const GridResults& results) {
  Rows rows{{"cell", "runs", results.score, "loss", "skips", "others"}};
  for (const GridResults::Cell& c : results.cells)
    rows.push_back({c.name, fmt::format("{}", c.score.size()), shown(c.score, 2), shown(c.loss, 4),
                    fmt::format("{}", c.skips), fmt::format("{}", fmt::join(c.others, ", "))});
  return rows;
}

// Returns the events that curves are drawn from: at most kMostEvents of training, evenly chosen.
ordered_json events_of(const RunLog& log) {
  constexpr std::size_t kMostEvents = 400;
  const std::size_t every = (log.of_kind("train").size() + kMostEvents - 1) / kMostEvents;
  std::size_t trained = 0;
  ordered_json events = ordered_json::array();
  for (const ordered_json& event : log.events) {
    const std::string kind = event.at("event");
    if (kind == "validate" || (kind == "train" && trained++ % every == 0)) events.push_back(event);
  }
  return events;
}

}  // namespace

GridResults grid_results(const std::vector<GridCell>& cells, const std::vector<GridRun>& runs) {
  GridResults results;
  for (const GridCell& cell : cells) results.cells.push_back({cell.name, {}, {}, 0, {}});
  for (const GridRun& run : runs) {
    GridResults::Cell& cell = results.cells[run.cell];
    if (run.outcome != "finished" && run.outcome != "out of patience") {
      cell.others.push_back(run.outcome.empty() ? "not ended" : run.outcome);
      continue;
    }
    const RunSummary summary = summary_of(read_run_log(run.path));
    cell.skips += summary.skips;
    if (!summary.best) continue;
    results.score = summary.score;
    cell.score.push_back(summary.best->at(summary.score));
    cell.loss.push_back(summary.best->at("loss"));
  }
  return results;
}

std::string grid_markdown(const GridResults& results) {
  const Rows rows = table_of(results);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i == 0) text += "|---|---|---|---|---|---|\n";
  }
  return text;
}

ordered_json grid_json(const GridResults& results) {
  ordered_json all = ordered_json::array();
  for (const GridResults::Cell& c : results.cells)
    all.push_back(
        {{"cell", c.name}, {results.score, c.score}, {"loss", c.loss}, {"skips", c.skips}, {"others", c.others}});
  return all;
}

std::string grid_html(const std::string& title, const GridResults& results, const std::vector<GridRun>& runs) {
  std::vector<std::vector<std::size_t>> by_cell(results.cells.size());
  ordered_json shown_runs = ordered_json::array();
  for (const GridRun& run : runs) {
    if (!file_exists(RunDirectory(run.path).log())) continue;
    RunLog log = read_run_log(run.path);
    log.name = fmt::format("{}, {}", results.cells[run.cell].name, std::filesystem::path(run.path).filename().string());
    ordered_json one = summary_json(summary_of(log));
    one["events"] = events_of(log);
    one["cell"] = run.cell;
    by_cell[run.cell].push_back(shown_runs.size());
    shown_runs.push_back(std::move(one));
  }
  ordered_json data{{"runs", shown_runs}, {"groups", ordered_json::array()}, {"grid", table_of(results)}};
  for (const std::vector<std::size_t>& group : by_cell)
    if (group.size() > 1) data["groups"].push_back(group);
  return report_page(title, data);
}

std::string outcome_of(const std::string& run) {
  if (!file_exists(RunDirectory(run).log())) return "";
  const std::string outcome = summary_of(read_run_log(run)).outcome;
  return outcome == "unfinished" ? "" : outcome;
}

}  // namespace foldgrad
