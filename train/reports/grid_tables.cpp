#include "train/reports/grid_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>

#include "engine/files/file.h"
#include "train/reports/paired.h"
#include "train/reports/report.h"
#include "train/runs/directory.h"

namespace foldgrad {

using nlohmann::ordered_json;

namespace {

using BySeed = std::map<std::string, double>;

// Returns the mean, with the standard deviation if there are several values.
std::string cell_of(const BySeed& values, int decimals) {
  if (values.empty()) return "-";
  double mean = 0, variance = 0;
  for (const auto& [seed, v] : values) mean += v / double(values.size());
  if (values.size() == 1) return fmt::format("{:.{}f}", mean, decimals);
  for (const auto& [seed, v] : values) variance += (v - mean) * (v - mean) / double(values.size() - 1);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, decimals, std::sqrt(variance), decimals);
}

std::string cell_of(const PairedDifference& d, int decimals) {
  if (d.values.empty()) return "-";
  std::string text = fmt::format("{:+.{}f}", d.mean, decimals);
  if (d.values.size() > 1) text += fmt::format(" ± {:.{}f}", d.deviation, decimals);
  return std::isnan(d.p) ? text : text + fmt::format(", p = {:.2g}", d.p);
}

Rows table_of(const GridResults& results) {
  Rows rows{{"cell", "runs", results.score, "loss", "skips", "others"}};
  for (const GridResults::Cell& c : results.cells)
    rows.push_back({c.name, fmt::format("{}", c.score.size()), cell_of(c.score, 2), cell_of(c.loss, 4),
                    fmt::format("{}", c.skips), fmt::format("{}", fmt::join(c.others, ", "))});
  if (!results.baseline) return rows;
  const GridResults::Cell& base = results.cells[*results.baseline];
  for (const std::string& what : {results.score, std::string("loss")})
    rows[0].push_back(fmt::format("{} difference from {}", what, base.name));
  for (std::size_t c = 0; c < results.cells.size(); ++c) {
    const GridResults::Cell& cell = results.cells[c];
    const bool same = c == *results.baseline;
    rows[c + 1].push_back(same ? "" : cell_of(paired_difference(cell.score, base.score), 2));
    rows[c + 1].push_back(same ? "" : cell_of(paired_difference(cell.loss, base.loss), 4));
  }
  return rows;
}

std::vector<double> values_of(const BySeed& by_seed) {
  std::vector<double> values;
  for (const auto& [seed, value] : by_seed) values.push_back(value);
  return values;
}

}  // namespace

GridResults grid_results(const Grid& grid, const std::vector<GridRun>& runs) {
  GridResults results;
  results.baseline = grid.baseline;
  for (const GridCell& cell : grid.cells) results.cells.push_back({.name = cell.name, .score = {}});
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
    const std::string seed = std::filesystem::path(run.path).filename();
    cell.score[seed] = summary.best->at(summary.score);
    cell.loss[seed] = summary.best->at("loss");
  }
  return results;
}

std::string grid_markdown(const GridResults& results) {
  const Rows rows = table_of(results);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(rows[i], " | "));
    if (i > 0) continue;
    for (std::size_t column = 0; column < rows[0].size(); ++column) text += "|---";
    text += "|\n";
  }
  return text;
}

ordered_json grid_json(const GridResults& results) {
  ordered_json all = ordered_json::array();
  for (const GridResults::Cell& c : results.cells)
    all.push_back({{"cell", c.name},
                   {results.score, values_of(c.score)},
                   {"loss", values_of(c.loss)},
                   {"skips", c.skips},
                   {"others", c.others}});
  if (!results.baseline) return all;
  const GridResults::Cell& base = results.cells[*results.baseline];
  for (std::size_t c = 0; c < all.size(); ++c)
    for (const auto& [what, values] :
         {std::pair(results.score, &GridResults::Cell::score), {"loss", &GridResults::Cell::loss}}) {
      const PairedDifference d = paired_difference(results.cells[c].*values, base.*values);
      all[c]["minus " + base.name][what] = {
          {"values", d.values}, {"mean", d.mean}, {"deviation", d.deviation}, {"p", d.p}};
    }
  return all;
}

std::string outcome_of(const std::string& run) {
  if (!file_exists(RunDirectory(run).log())) return "";
  const std::string outcome = summary_of(read_run_log(run)).outcome;
  return outcome == "unfinished" ? "" : outcome;
}

}  // namespace foldgrad
