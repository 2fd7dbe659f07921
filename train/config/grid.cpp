#include "train/config/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>

#include "engine/files/file.h"
#include "models/options/nearest_name.h"
#include "train/config/config.h"
#include "train/config/given.h"

namespace foldgrad {
namespace {

const std::vector<std::string> kGridKeys = {"config", "seeds", "set", "lists", "cells"};

class GridFile {
 public:
  GridFile(const std::string& path, const toml::table& all) : path_(path), all_(all) {
    for (const auto& [key, node] : all_)
      if (std::ranges::find(kGridKeys, key.str()) == kGridKeys.end())
        refuse(node, fmt::format("a grid has no key {}{} It has config, seeds, set, lists and cells", key.str(),
                                 did_you_mean(std::string(key.str()), kGridKeys, "\"", ".")));
  }

  [[noreturn]] void refuse(const toml::node& node, const std::string& what) const {
    throw ConfigError(fmt::format("{}:{}: {}", path_, node.source().begin.line, what));
  }
  const toml::table& table(const toml::node& node, const std::string& name) const {
    if (!node.is_table()) refuse(node, fmt::format("{} must be a table", name));
    return *node.as_table();
  }
  const toml::table* table(const char* name) const {
    const toml::node* node = all_.get(name);
    return node ? &table(*node, name) : nullptr;
  }
  // Those with names; where there are none, one without, of the keys of all cells.
  std::vector<GridCell> cells() const {
    const toml::table *set = table("set"), *named = table("cells");
    const GridCell common{"", "", config(all_), set ? settings(*set) : std::vector<std::string>()};
    if (!named || named->empty()) return {common};
    std::vector<GridCell> cells;
    for (const auto& [name, node] : *named) {
      toml::table own = table(node, "cells." + std::string(name.str()));
      GridCell cell{std::string(name.str()), "", config(*node.as_table(), common.config), common.settings};
      own.erase("config");
      std::ranges::copy(settings(own), std::back_inserter(cell.settings));
      cells.push_back(std::move(cell));
    }
    return cells;
  }
  // Returns the configuration that a table begins with: the path in its key config, or `otherwise`.
  std::string config(const toml::table& table, const std::string& otherwise = "") const {
    const toml::node* node = table.get("config");
    if (!node) return otherwise;
    if (!node->is_string()) refuse(*node, "config must be text");
    return (std::filesystem::path(path_).parent_path() / node->as_string()->get()).lexically_normal();
  }
  std::vector<std::int64_t> seeds() const {
    const toml::node* node = all_.get("seeds");
    if (!node) return {1};
    std::vector<std::int64_t> seeds;
    if (node->is_array())
      for (const toml::node& seed : *node->as_array())
        if (seed.is_integer()) seeds.push_back(seed.as_integer()->get());
    if (seeds.empty() || seeds.size() != node->as_array()->size()) refuse(*node, "seeds must be a list of integers");
    return seeds;
  }
  // Keys in quotes or with dots, and their values as --set takes them.
  static std::vector<std::string> settings(const toml::table& table) {
    std::vector<std::string> all;
    for (const auto& [key, value] : values_below(table)) all.push_back(key + "=" + text_of(*value));
    return all;
  }

 private:
  std::string path_;
  const toml::table& all_;
};

// Returns the settings of every combination of what [lists] has.
std::vector<std::vector<std::string>> combinations_of(const GridFile& file, const toml::table& lists) {
  std::vector<std::vector<std::string>> combinations(1);
  for (const auto& [key, node] : values_below(lists)) {
    if (!node->is_array() || node->as_array()->empty()) file.refuse(*node, fmt::format("{} must be a list", key));
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

// A cell with one combination of what the lists have.
GridCell combined(GridCell cell, const std::vector<std::string>& settings) {
  const std::string text = fmt::format("{}", fmt::join(settings, ", "));
  cell.name += (cell.name.empty() || text.empty() ? "" : ", ") + text;
  if (cell.name.empty()) cell.name = "all";
  cell.folder = folder_of(cell.name);
  std::ranges::copy(settings, std::back_inserter(cell.settings));
  return cell;
}

void check(const Grid& grid, const std::string& path) {
  std::map<std::string, std::string> names;  // of folders
  for (const GridCell& cell : grid.cells) {
    const auto [other, first] = names.emplace(cell.folder, cell.name);
    if (!first)
      throw ConfigError(fmt::format("{}: the cells \"{}\" and \"{}\" would have one folder, {}", path, other->second,
                                    cell.name, cell.folder));
    if (cell.config.empty())
      throw ConfigError(fmt::format("{}: a grid must have config, the file that all cells begin with", path));
    (void)read_config(cell.config, cell.settings);
  }
}

}  // namespace

Grid read_grid(const std::string& path) {
  const toml::table all = parse_toml(read_file(path), path);
  const GridFile file(path, all);
  Grid grid{file.seeds(), {}};
  const toml::table none, *lists = file.table("lists");
  const auto combinations = combinations_of(file, lists ? *lists : none);
  for (const GridCell& cell : file.cells())
    for (const auto& settings : combinations) grid.cells.push_back(combined(cell, settings));
  check(grid, path);
  return grid;
}

}  // namespace foldgrad
