#include "train/checkpoints/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/files/file.h"

namespace foldgrad::checkpoint_files {

std::string step_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  std::int64_t step = -1;
  if (name.rfind(kPrefix, 0) != 0) return -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && name == step_name(step) ? step : -1;
}

std::string read_pointer(const std::string& path) {
  try {
    std::string name = read_file(path);
    if (!name.empty() && name.back() == '\n') name.pop_back();
    return step_of(name) >= 0 ? name : "";
  } catch (const FileError&) {
    return "";
  }
}

std::vector<std::int64_t> steps_in(const std::string& checkpoints) {
  std::vector<std::int64_t> steps;
  std::error_code ignored;  // an absent directory has none
  for (std::filesystem::directory_iterator it(checkpoints, ignored), end; it != end; it.increment(ignored))
    if (const std::int64_t step = step_of(it->path().filename()); step >= 0) steps.push_back(step);
  std::ranges::sort(steps);
  return steps;
}

}  // namespace foldgrad::checkpoint_files
