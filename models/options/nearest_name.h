// For messages about names that do not exist.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// What was probably meant by `name`: the candidate that other programs call so ("layernorm", "model.d_model"), or else
// the one with the fewest insertions, deletions, replacements and exchanges of characters away, the first of several.
// Of names with dots the last part decides, and no more than a third of it may differ. Empty when nothing is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// "; did you mean NEAREST?", the name between `quotes`, or `otherwise` when nothing is near.
std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates,
                         const std::string& quotes = "", const std::string& otherwise = "");

}  // namespace foldgrad
