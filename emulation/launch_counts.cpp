#include "emulation/launch_counts.h"

#include <algorithm>
#include <vector>

namespace foldgrad::emulation {
namespace {
LaunchCounts* innermost = nullptr;
}

LaunchCounts::LaunchCounts() : outer_(innermost) { innermost = this; }
LaunchCounts::~LaunchCounts() { innermost = outer_; }

std::int64_t LaunchCounts::total() const {
  std::int64_t sum = 0;
  for (const auto& [name, count] : by_name_) sum += count;
  return sum;
}

std::string LaunchCounts::table() const {
  std::vector<std::pair<std::string, std::int64_t>> rows(by_name_.begin(), by_name_.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : rows) text += std::to_string(count) + "  " + name + "\n";
  return text;
}

void count_launch(const char* name) {
  for (LaunchCounts* counts = innermost; counts; counts = counts->outer_) ++counts->by_name_[name];
}

}  // namespace foldgrad::emulation
