#include "models/options/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace foldgrad {
namespace {

// Returns the Levenshtein distance, but counts a swap of two neighbours as one edit.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1), last, before;
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

// Returns "lr" for "train.lr" and "out" for "--out".
std::string last_part(const std::string& name) {
  const std::size_t dot = name.find_last_of('.');
  return name.substr(dot != std::string::npos ? dot + 1 : std::min(name.find_first_not_of('-'), name.size()));
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string part = last_part(name);
  const std::size_t most = std::max<std::size_t>(1, part.size() / 3);
  std::string nearest;
  for (const std::string& candidate : candidates)
    if (distance(part, last_part(candidate)) <= most &&
        (nearest.empty() || distance(name, candidate) < distance(name, nearest)))
      nearest = candidate;
  return nearest;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates, const std::string& quotes,
                         const std::string& otherwise) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? otherwise : "; did you mean " + quotes + nearest + quotes + "?";
}

}  // namespace foldgrad
