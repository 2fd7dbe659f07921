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

// The end of a message on a directory of data that is not there: where it may lie, and how to fetch one of these sets.
std::string where_data_lies(const std::string& directory);

}  // namespace foldgrad
