// foldgrad grid: runs that differ in chosen keys, and a table of them.
#include "train/config/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/files/atomic_file.h"
#include "train/commands/commands.h"
#include "train/config/config.h"
#include "train/reports/run_log.h"
#include "train/runs/directory.h"
#include "train/system/child_process.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct GridOptions {
  std::string grid, out, data_directory, device = "auto";
  int jobs = 1;
  bool json = false;
};

struct GridRun {
  std::size_t cell;
  std::string path;
  std::vector<std::string> command;  // foldgrad train ...
  std::string outcome;               // "finished", "diverged", "exit code 3", ...
};

std::vector<GridRun> runs_of(const Grid& grid, const GridOptions& o) {
  const int threads = std::max(1, int(std::thread::hardware_concurrency()) / o.jobs);
  std::vector<GridRun> runs;
  for (std::size_t c = 0; c < grid.cells.size(); ++c)
    for (const std::int64_t seed : grid.seeds) {
      const std::string path = fmt::format("{}/{}/seed-{}", o.out, grid.cells[c].folder, seed);
      GridRun run{c,
                  path,
                  {std::filesystem::read_symlink("/proc/self/exe"), "train", grid.cells[c].config, "--out", path,
                   "--resume", "--device", o.device, "--threads", fmt::format("{}", threads)},
                  ""};
      if (!o.data_directory.empty()) run.command.insert(run.command.end(), {"--data-dir", o.data_directory});
      for (const std::string& setting : grid.cells[c].settings)
        run.command.insert(run.command.end(), {"--set", setting});
      run.command.insert(run.command.end(), {"--set", fmt::format("train.seed={}", seed)});
      runs.push_back(std::move(run));
    }
  return runs;
}

// What a run's log says, empty where there is none, or one that is not at its end.
std::string outcome_of(const std::string& run) {
  if (!std::filesystem::exists(RunDirectory(run).log())) return "";
  const std::string outcome = summary_of(read_run_log(run)).outcome;
  return outcome == "unfinished" ? "" : outcome;
}

// Whether the others may go on.
bool train(GridRun& run) {
  run.outcome = outcome_of(run.path);
  if (!run.outcome.empty()) return true;
  say("{}\n", run.path);
  const ChildResult r = run_child(run.command, /*quiet=*/true);
  if (r.status == kExitInterrupted) return false;
  run.outcome =
      r.status == kExitOk || r.status == kExitDiverged ? outcome_of(run.path) : fmt::format("exit code {}", r.status);
  if (r.status != kExitOk && r.status != kExitDiverged)
    say("warning: {}: ended with {}; see what it says: {}\n", run.path, r.status, fmt::join(run.command, " "));
  return true;
}

bool train_all(std::vector<GridRun>& runs, int jobs) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> go_on = true;
  std::vector<std::thread> workers;
  for (int j = 0; j < jobs; ++j)
    workers.emplace_back([&] {
      for (std::size_t i; go_on && (i = next++) < runs.size();)
        if (!train(runs[i])) go_on = false;
    });
  for (std::thread& worker : workers) worker.join();
  return go_on;
}

struct Spread {
  double mean, deviation;
};
Spread spread_of(const std::vector<double>& values) {
  Spread s{0, 0};
  for (const double v : values) s.mean += v / double(values.size());
  for (const double v : values) s.deviation += (v - s.mean) * (v - s.mean) / double(values.size() - 1);
  s.deviation = values.size() > 1 ? std::sqrt(s.deviation) : 0;
  return s;
}

struct CellResult {
  std::string name;
  std::vector<double> score, loss;  // of the runs that ended well
  std::int64_t skips = 0;
  std::vector<std::string> others;  // outcomes of the rest
};

std::vector<CellResult> results_of(const Grid& grid, const std::vector<GridRun>& runs, std::string& score) {
  std::vector<CellResult> results;
  for (const GridCell& cell : grid.cells) results.push_back({cell.name, {}, {}, 0, {}});
  for (const GridRun& run : runs) {
    CellResult& result = results[run.cell];
    if (run.outcome != "finished" && run.outcome != "out of patience") {
      result.others.push_back(run.outcome);
      continue;
    }
    const RunSummary summary = summary_of(read_run_log(run.path));
    result.skips += summary.skips;
    if (!summary.best) continue;
    score = summary.score;
    result.score.push_back(summary.best->at(summary.score));
    result.loss.push_back(summary.best->at("loss"));
  }
  return results;
}

std::string shown(const std::vector<double>& values, int decimals) {
  if (values.empty()) return "-";
  const Spread s = spread_of(values);
  if (values.size() == 1) return fmt::format("{:.{}f}", s.mean, decimals);
  return fmt::format("{:.{}f} ± {:.{}f}", s.mean, decimals, s.deviation, decimals);
}

std::string markdown(const std::vector<CellResult>& results, const std::string& score) {
  std::string text = fmt::format("| cell | runs | {} | loss | skips | others |\n|---|---|---|---|---|---|\n", score);
  for (const CellResult& r : results)
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", r.name, r.score.size(), shown(r.score, 2),
                        shown(r.loss, 4), r.skips, fmt::join(r.others, ", "));
  return text;
}

nlohmann::ordered_json json_of(const std::vector<CellResult>& results, const std::string& score) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CellResult& r : results)
    all.push_back({{"cell", r.name}, {score, r.score}, {"loss", r.loss}, {"skips", r.skips}, {"others", r.others}});
  return all;
}

int run_grid(const GridOptions& o) {
  const Grid grid = read_grid(o.grid);
  make_directories(o.out);
  std::vector<GridRun> runs = runs_of(grid, o);
  if (!train_all(runs, o.jobs)) return kExitInterrupted;
  std::string score = "score";
  const std::vector<CellResult> results = results_of(grid, runs, score);
  const std::string table = markdown(results, score);
  write_file_atomically(o.out + "/grid.md", table);
  if (o.json)
    print_json(json_of(results, score));
  else
    fmt::print("{}", table);
  const bool failed = std::ranges::any_of(runs, [](const GridRun& r) { return r.outcome.starts_with("exit code"); });
  return failed ? kExitCheckFailed : kExitOk;
}

}  // namespace

Action add_grid(CLI::App& command) {
  const auto options = std::make_shared<GridOptions>();
  command.add_option("GRID", options->grid, "Keys and their values, TOML (docs/analyses.md)")->required();
  command.add_option("--out", options->out, "Directory of the runs; those that are there are gone on with")->required();
  command.add_option("--jobs", options->jobs, "Runs at a time, which share the processors (default: 1)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--data-dir", options->data_directory, "Root of data.directory; default: $FOLDGRAD_DATA");
  add_device_option(command, options->device);
  command.add_flag("--json", options->json, "Print JSON");
  return [options] { return run_grid(*options); };
}

}  // namespace foldgrad
