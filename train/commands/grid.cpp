// foldgrad grid: trains runs that differ in chosen keys, and makes a table of their results.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "engine/cpu/threads.h"
#include "engine/files/atomic_file.h"
#include "train/commands/command.h"
#include "train/config/config.h"
#include "train/reports/grid_tables.h"
#include "train/runs/directory.h"
#include "train/system/child_process.h"
#include "train/system/signals.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

struct GridOptions {
  std::string grid, out, data_directory, device = "auto";
  int jobs = 1;
  std::vector<std::string> self;  // the words that start this program
};

// Trains a grid's runs, several at a time. Rewrites the table whenever a run has ended.
class GridTraining {
 public:
  explicit GridTraining(const GridOptions& o) : options_(o), grid_(read_grid(o.grid)) {
    for (std::size_t c = 0; c < grid_.cells.size(); ++c)
      for (const std::int64_t seed : grid_.seeds) {
        runs_.push_back({c, fmt::format("{}/{}/seed-{}", o.out, grid_.cells[c].folder, seed), ""});
        commands_.push_back(command(grid_.cells[c], seed, runs_.back().path));
      }
  }

  Answer run() {
    if (!train_all()) return {.exit_code = kExitInterrupted};
    if (lacks_data_) {
      say("error: the files of a run cannot be used (see above), so no other run was started\n");
      return {.exit_code = kExitData};
    }
    if (any_failed_) say("error: {}: runs failed, see the warnings above\n", options_.grid);
    const GridResults results = grid_results(grid_, runs_);
    return {grid_markdown(results), grid_json(results), any_failed_ ? kExitCheckFailed : kExitOk};
  }

 private:
  // Trains the runs that have not ended. Stops after the first run whose data or files cannot be used, since the others
  // would fail in the same way. Returns false if training was interrupted.
  bool train_all() {
    make_directories(options_.out);
    note_interrupts();
    for (GridRun& run : runs_) run.outcome = outcome_of(run.path);
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> go_on = true;
    std::vector<std::thread> workers;
    const auto work = [&] {
      for (std::size_t n; go_on && (n = next++) < runs_.size();)
        if (!train(by_seed(n)) || interrupted()) go_on = false;
    };
    try {
      for (int j = 0; j < options_.jobs; ++j) workers.emplace_back(work);
    } catch (const std::system_error&) {  // the system refuses more threads, so fewer runs train at a time
      if (workers.empty()) throw;
    }
    for (std::thread& worker : workers) worker.join();
    if (go_on) write();
    return go_on || lacks_data_;
  }

  std::vector<std::string> command(const GridCell& cell, std::int64_t seed, const std::string& path) const {
    const int share = std::max(1, threads() / options_.jobs);
    std::vector<std::string> words = options_.self;
    words.insert(words.end(), {"train", cell.config, "--resume", "--out", path, "--device", options_.device,
                               "--threads", std::to_string(share)});
    if (!options_.data_directory.empty()) words.insert(words.end(), {"--data-dir", options_.data_directory});
    for (const std::string& setting : cell.settings) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--set", fmt::format("train.seed={}", seed)});
    return words;
  }

  // Returns the index of the n-th run to train. Each cell gets its first run before any cell gets its second, so that
  // cells have similar numbers of runs in an incomplete table.
  std::size_t by_seed(std::size_t n) const {
    return n % grid_.cells.size() * grid_.seeds.size() + n / grid_.cells.size();
  }

  // Trains run i. Returns true if the other runs may continue.
  bool train(std::size_t i) {
    if (!runs_[i].outcome.empty()) return true;
    say("{}\n", runs_[i].path);
    const ChildResult r = run_child_until(commands_[i], interrupted);
    if (r.status == kExitInterrupted || (!r.succeeded() && interrupted())) return false;
    const bool has_ended = r.status == kExitOk || r.status == kExitDiverged;
    if (!has_ended)
      say("warning: {}: {}{}\nto see the whole output, run: {}\n", runs_[i].path, r.how(),
          r.said.empty() ? "" : ": " + r.said, command_line(commands_[i]));
    const std::lock_guard lock(mutex_);
    try {
      runs_[i].outcome = has_ended       ? outcome_of(runs_[i].path)
                         : r.status >= 0 ? fmt::format("exit code {}", r.status)
                         : r.signal > 0  ? fmt::format("signal {}", r.signal)
                                         : "not started";
      write();
    } catch (const FileError& e) {  // the table is written again when the next run has ended, and at the end
      say("warning: {}\n", e.what());
    }
    any_failed_ = any_failed_ || !has_ended;
    if (r.status == kExitData) lacks_data_ = true;
    return !lacks_data_;
  }

  void write() const {
    const GridResults results = grid_results(grid_, runs_);
    write_file_atomically(options_.out + "/grid.md", grid_markdown(results));
  }

  const GridOptions options_;
  const Grid grid_;
  std::vector<GridRun> runs_;
  std::vector<std::vector<std::string>> commands_;  // the command of each run, foldgrad train ...
  bool any_failed_ = false, lacks_data_ = false;
  std::mutex mutex_;  // guards the outcomes and the table
};

}  // namespace

Action add_grid(CLI::App& command, const std::vector<std::string>& self) {
  const auto options = std::make_shared<GridOptions>();
  options->self = self;
  command.add_option("GRID", options->grid, "TOML file that lists the values to try for each key (docs/analyses.md)")
      ->required();
  command.add_option("--out", options->out, "Directory for the runs; existing runs are resumed")->required();
  command.add_option("--jobs", options->jobs, "Number of concurrent runs, which share the processors (default: 1)")
      ->check(CLI::Range(1, 1024));
  add_data_dir_option(command, options->data_directory);
  add_device_option(command, options->device);
  add_json_option(command);
  return [options] { return GridTraining(*options).run(); };
}

}  // namespace foldgrad
