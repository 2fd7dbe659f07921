#include "train/data/data_root.h"

#include <cstdlib>
#include <filesystem>

namespace foldgrad {

std::string data_root(const std::string& flag) {
  if (!flag.empty()) return flag;
  constexpr const char* kPlaces[][2] = {
      {"FOLDGRAD_DATA", ""}, {"XDG_CACHE_HOME", "/foldgrad"}, {"HOME", "/.cache/foldgrad"}};
  for (const auto& [variable, below] : kPlaces)
    if (const char* value = std::getenv(variable); value && *value) return std::string(value) + below;
  return ".";
}

std::string data_directory(const std::string& directory, const std::string& flag) {
  return directory.empty() ? data_root(flag)
                           : (std::filesystem::path(data_root(flag)) / directory).string();  // an absolute one stays
}

}  // namespace foldgrad
