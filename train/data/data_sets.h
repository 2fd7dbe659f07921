// Data sets that `foldgrad data fetch` knows.
#pragma once
#include <map>

#include "train/data/download.h"

namespace foldgrad {

struct DataSet {
  std::string name, about;
  std::vector<Download> archives;              // path: the name of the file
  std::map<std::string, std::string> renamed;  // pairs in the archives to pairs in the data directory
};

const std::vector<DataSet>& data_sets();

}  // namespace foldgrad
