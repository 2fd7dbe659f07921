#include "train/data/data_root.h"

#include <cstdlib>
#include <filesystem>

namespace foldgrad {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

std::string data_root(const std::string& flag) {
  if (!flag.empty()) return flag;
  if (const std::string data = variable("FOLDGRAD_DATA"); !data.empty()) return data;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/foldgrad";
  const std::string home = variable("HOME");
  return home.empty() ? "." : home + "/.cache/foldgrad";
}

std::string data_directory(const std::string& directory, const std::string& flag) {
  return directory.empty() ? data_root(flag)
                           : (std::filesystem::path(data_root(flag)) / directory).string();  // an absolute one stays
}

}  // namespace foldgrad
