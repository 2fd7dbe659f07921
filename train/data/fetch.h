// Fetches files and archived data sets from the network or copies them from local files. A file appears complete or not
// at all.
#pragma once
#include <functional>

#include "train/data/data_sets.h"

namespace foldgrad {

// Fetches a file with the program curl, which appends to PATH.part; a later call resumes the download. If the digest is
// right, PATH.part is renamed to PATH. An existing file with that digest is kept. A server counts as failed if it sends
// less than 1,000 bytes per second for a minute or announces more than 10 GiB. Throws FileError, which names the path,
// the digest and every URL with its failure, or says that curl is missing.
void download(const Download& wanted);

// Copies a file that the user already has. Throws FileError if copying fails or the digest is wrong.
void take_file(const std::string& file, const Download& wanted);

// Copies a set's archives from `files`, or fetches them, into ROOT/archives, unpacks them into a folder PATH, and calls
// take(PATH). PATH is below ROOT, so that `take` can rename its files, and is removed afterwards. A failure leaves no
// empty directory, since it would look like the data set. Throws FileError if one of these steps fails, if one of
// `files` is not an archive of the set, or if the program tar is missing or rejects an archive.
void with_unpacked(const DataSet& set, const std::vector<std::string>& files, const std::string& root,
                   const std::function<void(const std::string&)>& take);
// Fetches a set's images unless ROOT has them already. Files appear in ROOT complete, and only after all digests have
// matched.
void fetch_images(const DataSet& set, const std::vector<std::string>& files, const std::string& root);

// Returns true if ROOT has the set's images already. Throws FileError if a file has the name of one of the images but a
// different digest. That file is never overwritten.
bool has_images(const DataSet& set, const std::string& root);

}  // namespace foldgrad
