// Pairs of files NAME.SOURCE and NAME.TARGET in a directory, as train.de and train.en.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace foldgrad {

// Returns the names of the directory's files with this ending, without it.
std::set<std::string> stems(const std::string& directory, const std::string& ending);
// Returns the NAMEs of the pairs, in order. Throws FileError for no directory and no NAME.
std::vector<std::string> pair_names(const std::string& directory, const std::string& source, const std::string& target);

}  // namespace foldgrad
