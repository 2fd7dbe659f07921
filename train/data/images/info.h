// The number of images in a directory, by class.
#pragma once
#include "train/data/images/folder.h"

namespace foldgrad {

// Returns the counts of "train" and "test", if they exist, of a directory in the layout of folder.h or of cifar.h.
// Empty if neither exists. Throws FileError for images that training could not read.
std::vector<std::pair<std::string, FolderCounts>> count_images(const std::string& directory);

// Returns the counts as a table.
std::string table_of(const std::vector<std::pair<std::string, FolderCounts>>& parts);

}  // namespace foldgrad
