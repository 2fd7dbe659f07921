#include "train/config/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>

#include "engine/contains.h"
#include "engine/files/file.h"
#include "models/options/nearest_name.h"
#include "train/config/config.h"
#include "train/config/given.h"

namespace foldgrad {
namespace {

const std::vector<std::string> kGridKeys = {"config", "seeds", "set", "lists", "cells", "baseline"};

[[noreturn]] void refuse(const toml::node& node, const std::string& what) {
  throw ConfigError(fmt::format("{}: {}", place_of(node), what));
}

const toml::table& as_table(const toml::node& node, const std::string& name) {
  if (!node.is_table()) refuse(node, fmt::format("{} must be a table", name));
  return *node.as_table();
}

// Returns the table with this name, or an empty one.
const toml::table& table_in(const toml::table& all, const char* name) {
  static const toml::table none;
  const toml::node* node = all.get(name);
  return node ? as_table(*node, name) : none;
}

// Returns a table's configuration: the path in its key config, or `otherwise`.
std::string config_in(const toml::table& table, const std::string& otherwise = "") {
  const toml::node* node = table.get("config");
  if (!node) return otherwise;
  if (!node->is_string()) refuse(*node, "config must be text");
  return (std::filesystem::path(*node->source().path).parent_path() / node->as_string()->get()).lexically_normal();
}

// Returns every KEY=VALUE in the form of --set, also for quoted and dotted keys.
std::vector<std::string> settings_in(const toml::table& table) {
  std::vector<std::string> all;
  for (const auto& [key, value] : values_below(table)) all.push_back(key + "=" + text_of(*value));
  return all;
}

// Returns the named cells or, if there are none, one unnamed cell with the common keys.
std::vector<GridCell> cells_in(const toml::table& all) {
  const GridCell common{"", "", config_in(all), settings_in(table_in(all, "set"))};
  std::vector<GridCell> cells;
  for (const auto& [name, node] : table_in(all, "cells")) {
    toml::table own = as_table(node, "cells." + std::string(name.str()));
    GridCell cell{std::string(name.str()), "", config_in(*node.as_table(), common.config), common.settings};
    own.erase("config");
    std::ranges::copy(settings_in(own), std::back_inserter(cell.settings));
    cells.push_back(std::move(cell));
  }
  return cells.empty() ? std::vector{common} : cells;
}

std::vector<std::int64_t> seeds_in(const toml::table& all) {
  const toml::node* node = all.get("seeds");
  if (!node) return {1};
  const toml::array* list = node->as_array();
  if (!list || !list->is_homogeneous<std::int64_t>()) refuse(*node, "seeds must be a list of integers");
  std::vector<std::int64_t> seeds;
  for (const toml::node& seed : *list) seeds.push_back(seed.as_integer()->get());
  for (auto seed = seeds.begin(); seed != seeds.end(); ++seed)
    if (*seed < 0 || std::count(seeds.begin(), seed, *seed) > 0)
      refuse(*node, fmt::format("seeds must be at least 0 and all different, got {}", fmt::join(seeds, ", ")));
  return seeds;
}

// Returns the settings for every combination of values in [lists].
std::vector<std::vector<std::string>> combinations_of(const toml::table& lists) {
  std::vector<std::vector<std::string>> combinations(1);
  for (const auto& [key, node] : values_below(lists)) {
    if (!node->is_array() || node->as_array()->empty()) refuse(*node, fmt::format("{} must be a list", key));
    std::vector<std::vector<std::string>> longer;
    for (const auto& one : combinations)
      for (const toml::node& value : *node->as_array()) {
        longer.push_back(one);
        longer.back().push_back(key + "=" + text_of(value));
      }
    combinations = std::move(longer);
  }
  return combinations;
}

std::string folder_of(const std::string& name) {
  std::string folder;
  for (const unsigned char c : name) folder += std::isalnum(c) || c == '.' || c == '_' || c == '=' ? char(c) : '-';
  return folder;
}

// Adds one combination of the lists' values to a cell.
GridCell combined(GridCell cell, const std::vector<std::string>& settings) {
  const std::string text = fmt::format("{}", fmt::join(settings, ", "));
  cell.name += (cell.name.empty() || text.empty() ? "" : ", ") + text;
  if (cell.name.empty()) cell.name = "all";
  cell.folder = folder_of(cell.name);
  std::ranges::copy(settings, std::back_inserter(cell.settings));
  return cell;
}

std::optional<std::size_t> baseline_in(const toml::table& all, const std::vector<GridCell>& cells) {
  const toml::node* node = all.get("baseline");
  if (!node) return std::nullopt;
  if (!node->is_string()) refuse(*node, "baseline must be text");
  std::vector<std::string> names;
  for (const GridCell& cell : cells) names.push_back(cell.name);
  const std::string name = node->as_string()->get();
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    refuse(*node, fmt::format("there is no cell \"{}\" for the baseline{}", name, did_you_mean(name, names, "\"")));
  return found - names.begin();
}

void check(const Grid& grid, const std::string& path) {
  std::map<std::string, std::string> names;  // the name of each folder's cell
  for (const GridCell& cell : grid.cells) {
    const auto [other, first] = names.emplace(cell.folder, cell.name);
    if (!first)
      throw ConfigError(fmt::format("{}: the cells \"{}\" and \"{}\" would share the folder {}", path, other->second,
                                    cell.name, cell.folder));
    if (cell.folder.find_first_not_of('.') == cell.folder.npos)
      throw ConfigError(
          fmt::format("{}: the cell \"{}\" needs another name: this one cannot be a folder name", path, cell.name));
    for (const std::string& setting : cell.settings)
      if (setting.starts_with("train.seed="))
        throw ConfigError(fmt::format("{}: train.seed must not be set; list all seeds in the key seeds", path));
    if (cell.config.empty())
      throw ConfigError(fmt::format("{}: a grid must have config, the file that all cells start from", path));
    (void)read_config(cell.config, cell.settings);
  }
}

}  // namespace

Grid read_grid(const std::string& path) {
  const toml::table all = parse_toml(read_file(path), path);
  for (const auto& [key, node] : all)
    if (!contains(kGridKeys, key.str()))
      refuse(node, fmt::format("a grid has no key {}{} Its keys are {}", key.str(),
                               did_you_mean(std::string(key.str()), kGridKeys, "\"", "."), fmt::join(kGridKeys, ", ")));
  Grid grid{seeds_in(all), {}};
  const toml::table& lists = table_in(all, "lists");
  const std::vector<GridCell> cells = cells_in(all);
  for (const auto& [key, list] : values_below(lists))
    for (const GridCell& cell : cells)
      if (std::ranges::any_of(cell.settings, [&](const auto& setting) { return setting.starts_with(key + "="); }))
        refuse(*list, fmt::format("{} has a list here and a value in set or cells; remove one of them", key));
  const auto combinations = combinations_of(lists);
  for (const GridCell& cell : cells)
    for (const auto& settings : combinations) grid.cells.push_back(combined(cell, settings));
  check(grid, path);
  grid.baseline = baseline_in(all, grid.cells);
  return grid;
}

}  // namespace foldgrad
