// Suggestions for misspelt names.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// Returns the first candidate that needs the fewest insertions, deletions, replacements and swaps of neighbouring
// characters to become `name`. Compares only the last part of dotted names, in which at most a third of the characters
// may differ. Returns an empty string if no candidate is that close.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// Returns "; did you mean NEAREST?" with the name in `quotes`, or `otherwise` if no candidate is close.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& quotes = "", const std::string& otherwise = "");

}  // namespace foldgrad
