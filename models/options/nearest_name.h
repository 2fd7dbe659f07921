// Proposals for names that do not exist.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// Returns the candidate that is the fewest insertions, deletions, replacements and exchanges of neighbouring characters
// away from `name`, the first of several. The last part of a name with dots decides, and no more than a third of it may
// differ. Empty when nothing is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// Returns "; did you mean NEAREST?", the name between `quotes`, or `otherwise` when nothing is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& quotes = "", const std::string& otherwise = "");

}  // namespace foldgrad
