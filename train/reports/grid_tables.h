// The table of a grid's runs, as Markdown and as JSON.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/config/grid.h"

namespace foldgrad {

struct GridRun {
  std::size_t cell;
  std::string path;
  std::string outcome;  // "finished", "diverged", "exit code 3", ...; empty if the run has not ended
};

struct GridResults {
  struct Cell {
    std::string name;
    std::map<std::string, double> score, loss = {};  // best validations of the finished runs, by "seed-1" and so on
    std::int64_t skips = 0;                          // number of skips in these runs
    std::vector<std::string> others = {};            // outcomes of the unfinished runs
  };
  std::string score = "score";  // name of the deciding score
  std::vector<Cell> cells;
  std::optional<std::size_t> baseline = {};  // index of the cell with which the others are compared
};

// Throws FileError if the log of a finished run cannot be read.
GridResults grid_results(const Grid& grid, const std::vector<GridRun>& runs);

// Return the scores and losses of each cell: their mean and standard deviation over the cell's runs or, as JSON, the
// values. With a baseline, also return the mean and standard deviation of the differences from the baseline, seed by
// seed, and p of the paired t-test.
std::string grid_markdown(const GridResults& results);
nlohmann::ordered_json grid_json(const GridResults& results);

// Returns the outcome that a run's log records, or an empty string if there is no log or the run has not ended.
std::string outcome_of(const std::string& run);

}  // namespace foldgrad
