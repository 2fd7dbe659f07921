// The number of images in a directory, by class.
#pragma once
#include "train/tasks/classification/images/folder.h"

namespace foldgrad {

// Returns the counts of a directory's parts "train" and "test", in the layouts of folder.h or cifar.h, without a
// missing part; in TinyImageNet's layout of "train" and "val". Empty for any other directory. Throws FileError for
// images that training could not read.
std::vector<std::pair<std::string, FolderCounts>> count_images(const std::string& directory);

// Returns the counts as a table.
std::string table_of(const std::vector<std::pair<std::string, FolderCounts>>& parts);

}  // namespace foldgrad
