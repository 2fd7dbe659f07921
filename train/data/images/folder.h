// Images in folders: DIRECTORY/PART/CLASS/NAME with PART train or test, and names that end with .png, .jpg or .jpeg, in
// capitals too. Other files, those in folders within a class, and all that begins with a dot are left out.
//
// They are decoded once. The result stays in DIRECTORY/PART-SIZE.images, a safetensors file, and is read from there as
// long as names, sizes and times of the last change of all images are the same.
#pragma once
#include <string>
#include <vector>

#include "train/data/images/set.h"

namespace foldgrad {

// Reads all images of a part as square() makes them (picture.h), class after class and by name within. `classes`: what
// labels are indices of; empty: the part's own, in the order of their names. Throws FileError for a part without a
// class or a class without an image, for a class that is not among `classes`, and for what read_picture() refuses. A
// directory that cannot be written to is warned of, once for each part, and decoded anew each time. A note says how
// many files are left out.
ImageSet read_folder(const std::string& directory, ImagePart part, std::int64_t size,
                     const std::vector<std::string>& classes = {});

// The images of a part by class, and the files that are left out as text, which is empty if there are none.
struct FolderCounts {
  std::vector<std::string> classes;
  std::vector<std::int64_t> images;
  std::string left_out;
};
// Counts without decoding. Throws FileError as read_folder() does, but for what is in the images.
FolderCounts count_folder(const std::string& directory, ImagePart part);

// Returns SHA-256 over pixels, labels and names of classes.
std::string digest_of(const ImageSet& images);

}  // namespace foldgrad
