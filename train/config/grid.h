// Runs that differ in chosen keys: a grid, one TOML file.
//
//   config = "../multi30k-un.toml"     the configuration of all cells, relative to this file
//   seeds = [1, 2, 3]                  one run of each cell for each
//   set = {"train.steps" = 1000}       keys of all cells
//   lists = {"norm.un.window" = [2, 4]}           a cell for each value; of several keys, for each combination
//   [cells."Exp 2, no GM"]                        cells by name; with lists, each of them for each combination
//   config = "../iwslt14-bn.toml"                 its own configuration
//   "norm.un.forward_average" = "none"
//   baseline = "Exp 1"                 the cell that the table compares the others with, seed by seed
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace foldgrad {

struct GridCell {
  std::string name, folder, config;   // the last is a path
  std::vector<std::string> settings;  // SECTION.KEY=VALUE
};

struct Grid {
  std::vector<std::int64_t> seeds;
  std::vector<GridCell> cells;
  std::optional<std::size_t> baseline = {};  // of the cells
};

// Throws FileError when the file cannot be read, and ConfigError for what is no TOML, keys that a grid or its
// configuration does not have, cells that would have one folder, and a baseline that is no cell.
Grid read_grid(const std::string& path);

}  // namespace foldgrad
