// Files and archived data sets, fetched from the network or copied from elsewhere, complete or not at all.
#pragma once
#include <functional>

#include "train/data/data_sets.h"

namespace foldgrad {

// Fetches a file with the program curl, which appends to PATH.part; a later call resumes it. With the right digest it
// becomes PATH. An existing file with that digest is kept. A server fails if it sends less than 1,000 bytes a second
// for a minute or announces more than 10 GiB. Throws FileError, which names every URL with its failure, the digest and
// the path, or says that there is no curl.
void download(const Download& wanted);

// Copies a file that the user has fetched in another way.
void take_file(const std::string& file, const Download& wanted);

// Calls take(PATH) with the folder of a set's unpacked archives, which come from `files` or else from the network, into
// ROOT/archives. PATH is below ROOT, so that its files can be renamed, and is removed afterwards. A failure leaves no
// empty directory, which would look like the set. Throws FileError, also for a file that is not one of the archives,
// and if the program tar is missing or refuses an archive.
void with_unpacked(const DataSet& set, const std::vector<std::string>& files, const std::string& root,
                   const std::function<void(const std::string&)>& take);
// Fetches images unless they exist. Each file appears in ROOT complete, and only after all digests have matched.
void fetch_images(const DataSet& set, const std::vector<std::string>& files, const std::string& root);

// Returns true if ROOT has the set's images already. Throws FileError if another file has one of their names; such a
// file is never overwritten.
bool has_images(const DataSet& set, const std::string& root);

}  // namespace foldgrad
