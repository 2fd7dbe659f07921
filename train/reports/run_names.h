// Names that tell runs apart in a table or a report.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// For each path the fewest of its last parts that no other path ends with: of a/un, b/un and b/ln these are "a/un",
// "b/un" and "ln". Throws std::invalid_argument for a path that comes twice.
std::vector<std::string> distinct_names(const std::vector<std::string>& paths);

}  // namespace foldgrad
