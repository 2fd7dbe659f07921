// The place of data files, and the data sets of `foldgrad data fetch`.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct Download {
  std::vector<std::string> urls;  // mirrors of one file, tried in order
  std::string sha256;             // of the file
  std::string path;               // destination of the file
};

struct DataSet {
  std::string name, about;
  std::string directory;                            // below the data root
  std::vector<Download> archives;                   // path: the file's name
  std::map<std::string, std::string> renamed = {};  // for text: name of a pair in the archives -> name in the directory
  // Only for images, which are read as published: SHA-256, by name, of the files that training reads. The archive has
  // them in a folder that is also called `directory`.
  std::map<std::string, std::string> digests = {};
};

const std::vector<DataSet>& data_sets();

// Returns `flag` (--data-dir); without it $FOLDGRAD_DATA, $XDG_CACHE_HOME/foldgrad, or ~/.cache/foldgrad.
std::string data_root(const std::string& flag);
// Returns data.directory of a configuration, below data_root(flag).
std::string data_directory(const std::string& directory, const std::string& flag);

// Returns the end of a message about a missing data directory: where the program looks for it, and how to fetch one of
// these sets.
std::string where_data_lies(const std::string& directory);

}  // namespace foldgrad
