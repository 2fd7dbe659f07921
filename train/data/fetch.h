// A data set from its archives to the files that are read.
#pragma once
#include "train/data/data_sets.h"

namespace foldgrad {

// The archives of a set, from `files` or else from the network, in ROOT/archives, and what they hold, for as long as
// this object lives.
class UnpackedArchives {
 public:
  // A failure leaves no empty directory, which would look like the set. Throws FileError, also for a file
  // that is none of the archives.
  UnpackedArchives(const DataSet& set, const std::vector<std::string>& files, const std::string& root);
  ~UnpackedArchives();
  UnpackedArchives(const UnpackedArchives&) = delete;
  UnpackedArchives& operator=(const UnpackedArchives&) = delete;

  const std::string& path() const { return path_; }

 private:
  // A failure of the other constructor then runs the destructor.
  explicit UnpackedArchives(const std::string& root) : root_(root), path_(root + "/unpacked") {}

  std::string root_, path_;  // below ROOT, so that files can be renamed
};

// Returns true if ROOT has the set's images already. Throws FileError for another file of their name, which is never
// overwritten.
bool has_images(const DataSet& set, const std::string& root);

// Fetches them unless they are there. Each file appears in ROOT whole or not at all, and none before all have been
// compared with their digests. Throws FileError.
void fetch_images(const DataSet& set, const std::vector<std::string>& files, const std::string& root);

}  // namespace foldgrad
