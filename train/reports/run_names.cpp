#include <algorithm>
#include <filesystem>
#include <iterator>

#include "engine/check.h"
#include "train/reports/run_log.h"

namespace foldgrad {
namespace {

using Parts = std::vector<std::string>;

Parts parts_of(const std::string& path) {
  const auto whole = std::filesystem::absolute(path + "/").lexically_normal();  // so that "." has a name, too
  Parts parts;
  for (const auto& part : whole.relative_path())
    if (!part.empty()) parts.push_back(part.string());
  return parts;
}

bool ends_with(const Parts& path, const Parts& ending) {
  return path.size() >= ending.size() && std::equal(ending.rbegin(), ending.rend(), path.rbegin());
}

std::string shortest_name(const std::vector<Parts>& paths, std::size_t self) {
  const Parts& path = paths[self];
  Parts name;
  const auto shared = [&] {
    for (std::size_t i = 0; i < paths.size(); ++i)
      if (i != self && ends_with(paths[i], name)) return true;
    return false;
  };
  do name.insert(name.begin(), path[path.size() - 1 - name.size()]);
  while (name.size() < path.size() && shared());
  std::string text;
  for (const std::string& part : name) text += (text.empty() ? "" : "/") + part;
  return text;
}

}  // namespace

std::vector<std::string> distinct_names(const std::vector<std::string>& paths) {
  std::vector<Parts> all;
  for (const std::string& path : paths) {
    all.push_back(parts_of(path));
    FOLDGRAD_CHECK(!all.back().empty(), "runs: {} is no directory of a run", path);
    FOLDGRAD_CHECK(std::find(all.begin(), std::prev(all.end()), all.back()) == std::prev(all.end()),
                   "runs: each must be given once, got {} twice", path);
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < all.size(); ++i) names.push_back(shortest_name(all, i));
  return names;
}

}  // namespace foldgrad
