// The locations of data files, and the data sets that `foldgrad data fetch` can fetch.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace foldgrad {

struct Download {
  std::vector<std::string> urls;  // mirrors of the same file, tried in order
  std::string sha256;             // SHA-256 of the file
  std::string path;               // where to save the file
};

struct DataSet {
  std::string name, about;
  std::string directory;                            // name of a directory below the data root
  std::vector<Download> archives;                   // here `path` is only the file's name
  std::map<std::string, std::string> renamed = {};  // for text: names in the archives -> names in the directory
  // Empty except for images, which are used as published. Maps the name of each file that training reads to its
  // SHA-256. In the archive, these files are in a folder that is also named `directory`.
  std::map<std::string, std::string> digests = {};
};

const std::vector<DataSet>& data_sets();

// Returns `flag` (--data-dir). If it is empty, returns the first of $FOLDGRAD_DATA, $XDG_CACHE_HOME/foldgrad and
// ~/.cache/foldgrad whose variable is set.
std::string data_root(const std::string& flag);
// Returns the path of a configuration's data.directory. A relative path is below data_root(flag).
std::string data_directory(const std::string& directory, const std::string& flag);

// Returns the end of a message about a missing data directory: where the program looks for the directory and, if it
// belongs to one of these data sets, how to fetch the set.
std::string where_data_lies(const std::string& directory);

}  // namespace foldgrad
