#include "models/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace foldgrad {
namespace {

// Levenshtein's distance, row by row.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  const auto nearer = [&](const std::string& a, const std::string& b) { return distance(name, a) < distance(name, b); };
  const auto nearest = std::min_element(candidates.begin(), candidates.end(), nearer);
  return nearest == candidates.end() ? "" : *nearest;
}

}  // namespace foldgrad
