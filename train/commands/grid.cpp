// foldgrad grid: runs that differ in chosen keys, and tables of them.
#include "train/config/grid.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <thread>

#include "engine/files/atomic_file.h"
#include "train/commands/command.h"
#include "train/config/config.h"
#include "train/reports/report.h"
#include "train/runs/directory.h"
#include "train/system/child_process.h"
#include "train/system/signals.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

using nlohmann::ordered_json;

struct GridOptions {
  std::string grid, out, data_directory, device = "auto";
  int jobs = 1;
};

struct GridRun {
  std::size_t cell;
  std::string path;
  std::string outcome;  // "finished", "diverged", "exit code 3", ...; empty while it has not ended
};

struct GridResults {
  struct Cell {
    std::string name;
    std::vector<double> score, loss;  // best validations of the runs that ended well
    std::int64_t skips = 0;           // in these runs
    std::vector<std::string> others;  // outcomes of the rest
  };
  std::string score = "score";  // the one that decides
  std::vector<Cell> cells;
};

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

// Throws FileError when the log of a run that ended well cannot be read.
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

// Returns means with standard deviations over the runs of a cell, as a table.
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

// Returns one HTML file that needs no other: the table, and the curves of all runs that have a log.
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

// Returns the outcome in a run's log; empty without a log, or with one that has not ended.
std::string outcome_of(const std::string& run) {
  if (!file_exists(RunDirectory(run).log())) return "";
  const std::string outcome = summary_of(read_run_log(run)).outcome;
  return outcome == "unfinished" ? "" : outcome;
}

// The training of a grid's runs, some at a time. Its tables are written anew whenever one has ended.
class GridTraining {
 public:
  explicit GridTraining(const GridOptions& o) : options_(o), grid_(read_grid(o.grid)) {
    for (std::size_t c = 0; c < grid_.cells.size(); ++c)
      for (const std::int64_t seed : grid_.seeds) {
        runs_.push_back({c, fmt::format("{}/{}/seed-{}", o.out, grid_.cells[c].folder, seed), ""});
        commands_.push_back(command(grid_.cells[c], seed, runs_.back().path));
      }
  }

  // Returns false if it was interrupted.
  bool train_all() {
    make_directories(options_.out);
    note_interrupts();
    for (GridRun& run : runs_) run.outcome = outcome_of(run.path);
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> go_on = true;
    std::vector<std::thread> workers;
    for (int j = 0; j < options_.jobs; ++j)
      workers.emplace_back([&] {
        for (std::size_t n; go_on && (n = next++) < runs_.size();)
          if (!train(by_seed(n)) || interrupted()) go_on = false;
      });
    for (std::thread& worker : workers) worker.join();
    if (go_on) write();
    return go_on;
  }

  GridResults results() const { return grid_results(grid_.cells, runs_); }
  bool any_failed() const {
    return std::ranges::any_of(runs_, [](const GridRun& r) { return r.outcome.starts_with("exit code"); });
  }

 private:
  std::vector<std::string> command(const GridCell& cell, std::int64_t seed, const std::string& path) const {
    const int threads = std::max(1, omp_get_max_threads() / options_.jobs);
    std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe"), "train", cell.config, "--resume"};
    words.insert(words.end(), {"--out", path, "--device", options_.device, "--threads", std::to_string(threads)});
    if (!options_.data_directory.empty()) words.insert(words.end(), {"--data-dir", options_.data_directory});
    for (const std::string& setting : cell.settings) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--set", fmt::format("train.seed={}", seed)});
    return words;
  }

  // Returns the run that is trained as the n-th. All cells come once before any comes again, so that an incomplete
  // table has as much of each.
  std::size_t by_seed(std::size_t n) const {
    return n % grid_.cells.size() * grid_.seeds.size() + n / grid_.cells.size();
  }

  // Trains run i; returns true if the others may go on.
  bool train(std::size_t i) {
    if (!runs_[i].outcome.empty()) return true;
    say("{}\n", runs_[i].path);
    const ChildResult r = run_child(commands_[i], /*quiet=*/true, interrupted);
    if (r.status == kExitInterrupted) return false;
    const bool has_ended = r.status == kExitOk || r.status == kExitDiverged;
    if (!has_ended)
      say("warning: {}: ended with {}; see what it says: {}\n", runs_[i].path, r.status, command_line(commands_[i]));
    const std::lock_guard lock(mutex_);
    try {
      runs_[i].outcome = has_ended ? outcome_of(runs_[i].path) : fmt::format("exit code {}", r.status);
      write();
    } catch (const FileError& e) {  // it is written again when the next one has ended, and at the end
      say("warning: {}\n", e.what());
    }
    return true;
  }

  void write() const {
    const GridResults results = this->results();
    write_file_atomically(options_.out + "/grid.md", grid_markdown(results));
    write_file_atomically(options_.out + "/grid.html",
                          grid_html(std::filesystem::path(options_.grid).filename(), results, runs_));
  }

  const GridOptions options_;
  const Grid grid_;
  std::vector<GridRun> runs_;
  std::vector<std::vector<std::string>> commands_;  // of each run: foldgrad train ...
  std::mutex mutex_;                                // of outcomes and tables
};

Answer run_grid(const GridOptions& o) {
  GridTraining training(o);
  if (!training.train_all()) return {.exit_code = kExitInterrupted};
  const GridResults results = training.results();
  return {grid_markdown(results), grid_json(results), training.any_failed() ? kExitCheckFailed : kExitOk};
}

}  // namespace

Action add_grid(CLI::App& command) {
  const auto options = std::make_shared<GridOptions>();
  command.add_option("GRID", options->grid, "Keys and their values, TOML (docs/analyses.md)")->required();
  command.add_option("--out", options->out, "Directory of the runs; those that are there are gone on with")->required();
  command.add_option("--jobs", options->jobs, "Runs at a time, which share the processors (default: 1)")
      ->check(CLI::Range(1, 1024));
  add_data_dir_option(command, options->data_directory);
  add_device_option(command, options->device);
  add_json_option(command);
  return [options] { return run_grid(*options); };
}

}  // namespace foldgrad
