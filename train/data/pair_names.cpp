#include "train/data/pair_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "engine/files/file.h"

namespace foldgrad {

std::set<std::string> stems(const std::string& directory, const std::string& ending) {
  std::set<std::string> names;
  for (const std::filesystem::path& path : paths_in(directory))
    if (path.extension() == "." + ending) names.insert(path.stem());
  return names;
}

std::vector<std::string> pair_names(const std::string& directory, const std::string& source,
                                    const std::string& target) {
  const std::set<std::string> sources = stems(directory, source), targets = stems(directory, target);
  std::vector<std::string> names;
  std::ranges::set_intersection(sources, targets, std::back_inserter(names));
  if (names.empty()) throw FileError(directory, fmt::format("has no files NAME.{} and NAME.{}", source, target));
  return names;
}

}  // namespace foldgrad
