// Suggestions for misspelt names.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// Returns the candidate closest to `name`: the fewest insertions, deletions, replacements and swaps of neighbouring
// characters. Of equally close candidates, returns the first. Compares only the last part of names with dots, and at
// most a third of it may differ. Empty if no candidate is that close.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// Returns "; did you mean NEAREST?" with the name in `quotes`; `otherwise` if no candidate is close.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& quotes = "", const std::string& otherwise = "");

}  // namespace foldgrad
