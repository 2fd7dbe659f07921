// Place of the files of data, and the data sets that `foldgrad data fetch` knows.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct Download {
  std::vector<std::string> urls;  // mirrors of one file, tried in order
  std::string sha256;             // of the file
  std::string path;               // where it goes
};

struct DataSet {
  std::string name, about;
  std::string directory;                            // below the data root
  std::vector<Download> archives;                   // path: the name of the file
  std::map<std::string, std::string> renamed = {};  // text: pairs in the archives to pairs in the directory
  // SHA-256, by name, of the files that training reads, for images, which are read as published. The archive has them
  // in a folder that is also called `directory`.
  std::map<std::string, std::string> digests = {};
};

const std::vector<DataSet>& data_sets();

// Returns `flag` (--data-dir); without it $FOLDGRAD_DATA, $XDG_CACHE_HOME/foldgrad, or ~/.cache/foldgrad.
std::string data_root(const std::string& flag);
// Returns data.directory of a configuration, below data_root(flag).
std::string data_directory(const std::string& directory, const std::string& flag);

// Returns the end of a message on a missing data directory: where it may lie, and how to fetch one of these sets.
std::string where_data_lies(const std::string& directory);

}  // namespace foldgrad
