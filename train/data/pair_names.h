// Pairs of files NAME.SOURCE and NAME.TARGET in a directory, for example train.de and train.en.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace foldgrad {

// Returns NAME for each file "NAME.ending" in the directory.
std::set<std::string> stems(const std::string& directory, const std::string& ending);
// Returns the NAMEs of the pairs, sorted. Throws FileError if the directory does not exist or has no pairs.
std::vector<std::string> pair_names(const std::string& directory, const std::string& source, const std::string& target);

}  // namespace foldgrad
