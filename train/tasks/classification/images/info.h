// The number of images in a directory, by class.
#pragma once
#include "train/tasks/classification/images/folder.h"

namespace foldgrad {

// Counts the images of a directory's parts: "train" and "test" in the layouts of folder.h and cifar.h, "train" and
// "val" in TinyImageNet's layout. Leaves out parts that are missing, so the list is empty for a directory with any
// other layout. Throws FileError for images that training could not read.
std::vector<std::pair<std::string, FolderCounts>> count_images(const std::string& directory);

// Returns the counts as a table.
std::string table_of(const std::vector<std::pair<std::string, FolderCounts>>& parts);

}  // namespace foldgrad
