// Files from the network or from elsewhere, whole or not at all, and the data sets that archives hold.
#pragma once
#include <functional>

#include "train/data/data_sets.h"

namespace foldgrad {

// Fetches a file by the program curl: bytes are appended to PATH.part, which a later call resumes; with the right
// digest it becomes PATH. One that has it is left alone. A server that sends less than 1,000 bytes a second for a
// minute, or announces more than 10 GiB, has failed. Throws FileError, which names every URL with its failure, the
// digest and the path, or says that there is no curl.
void download(const Download& wanted);

// Copies the file, which somebody has fetched otherwise.
void take_file(const std::string& file, const Download& wanted);

// Calls take(PATH) with the folder of what the archives of a set hold; they come from `files` or else from the network,
// into ROOT/archives. PATH lies below ROOT, so that its files can be renamed, and is removed afterwards. A failure
// leaves no empty directory, which would look like the set. Throws FileError, also for a file that is none of the
// archives and where the program tar is absent or refuses one.
void with_unpacked(const DataSet& set, const std::vector<std::string>& files, const std::string& root,
                   const std::function<void(const std::string&)>& take);
// Fetches images unless they are there. Each file appears in ROOT whole or not at all, and none before all have been
// compared with their digests.
void fetch_images(const DataSet& set, const std::vector<std::string>& files, const std::string& root);

// Returns true if ROOT has the set's images already. Throws FileError for another file of their name, which is never
// overwritten.
bool has_images(const DataSet& set, const std::string& root);

}  // namespace foldgrad
