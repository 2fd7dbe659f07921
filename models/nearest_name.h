// For messages about names that do not exist.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// The candidate with the fewest insertions, deletions and replacements of characters away from `name`; the first of
// several. Empty when there are no candidates.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace foldgrad
