// Columns of words.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

using Rows = std::vector<std::vector<std::string>>;

// A line for each row; the first column to the left, the others to the right. All rows are as long as the first.
std::string aligned(const Rows& rows);

}  // namespace foldgrad
