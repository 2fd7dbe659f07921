// How many images a directory has, by class.
#pragma once
#include "train/data/images/folder.h"

namespace foldgrad {

// Returns the counts of "train" and "test", as far as they are there, of a directory in the layout of folder.h or of
// cifar.h; empty for a directory with neither. Throws FileError for images that no training could read.
std::vector<std::pair<std::string, FolderCounts>> count_images(const std::string& directory);

// Returns them as a table.
std::string table_of(const std::vector<std::pair<std::string, FolderCounts>>& parts);

}  // namespace foldgrad
