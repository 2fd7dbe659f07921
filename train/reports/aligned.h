// Columns of words.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

using Rows = std::vector<std::vector<std::string>>;

// Returns a line for each row, the first column to the left, the others to the right. All rows have as many columns.
std::string aligned(const Rows& rows);

}  // namespace foldgrad
