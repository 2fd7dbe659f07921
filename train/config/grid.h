// A grid: runs that differ in chosen keys, from one TOML file.
//
//   config = "../multi30k-un.toml"     the configuration of all cells, relative to this file
//   seeds = [1, 2, 3]                  each cell has one run for each seed
//   set = {"train.steps" = 1000}       keys of all cells
//   lists = {"norm.un.window" = [2, 4]}           a cell for each value; with several keys, for each combination
//   [cells."Exp 2, no GM"]                        cells by name; with lists, each cell for each combination
//   config = "../iwslt14-bn.toml"                 a cell's own configuration
//   "norm.un.forward_average" = "none"
//   baseline = "Exp 1"                 the cell with which the table compares the others, seed by seed
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace foldgrad {

struct GridCell {
  std::string name, folder, config;   // config is a path
  std::vector<std::string> settings;  // in the form SECTION.KEY=VALUE
};

struct Grid {
  std::vector<std::int64_t> seeds;
  std::vector<GridCell> cells;
  std::optional<std::size_t> baseline = {};  // index of the baseline cell
};

// Throws FileError if the file cannot be read, and ConfigError if the TOML is invalid, a key does not exist in grids or
// in the configuration, two cells would share a folder, or the baseline is not a cell.
Grid read_grid(const std::string& path);

}  // namespace foldgrad
