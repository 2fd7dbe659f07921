// Place of the files of data.
#pragma once
#include <string>

namespace foldgrad {

// Returns `flag` (--data-dir); without it $FOLDGRAD_DATA, $XDG_CACHE_HOME/foldgrad, or ~/.cache/foldgrad.
std::string data_root(const std::string& flag);
// Returns data.directory of a configuration, below data_root(flag).
std::string data_directory(const std::string& directory, const std::string& flag);

}  // namespace foldgrad
