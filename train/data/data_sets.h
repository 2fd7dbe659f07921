// Data sets that `foldgrad data fetch` knows.
#pragma once
#include <map>

#include "train/data/download.h"

namespace foldgrad {

struct DataSet {
  std::string name, about;
  std::string directory;                            // below the data root
  std::vector<Download> archives;                   // path: the name of the file
  std::map<std::string, std::string> renamed = {};  // text: pairs in the archives to pairs in the directory
  // Images, which are read as published: SHA-256 of the files that training reads, by name. The archive has them in a
  // folder that is also called `directory`.
  std::map<std::string, std::string> digests = {};
};

const std::vector<DataSet>& data_sets();

// Returns "; `foldgrad data fetch NAME` makes it ..." for the directory of one of them, else "".
std::string how_to_fetch(const std::string& directory);

}  // namespace foldgrad
