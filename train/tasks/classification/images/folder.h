// Images in folders: DIRECTORY/PART/CLASS/NAME, where PART is train or test and NAME ends with .png, .jpg or .jpeg, in
// lower or upper case. Other files, files in subfolders of a class, and names that begin with a dot are skipped.
//
// TinyImageNet has DIRECTORY/train/CLASS/images/NAME and DIRECTORY/val/images/NAME. Here `val` is the test part, since
// the archive's test images have no labels. DIRECTORY/val/val_annotations.txt has a line for each image of val: its
// name, its class and a box, separated by tabs; the box is ignored.
//
// Images are decoded once and cached in DIRECTORY/PART-SIZE.images, a safetensors file. The cache is used as long as
// the names, sizes and modification times of all images stay the same.
#pragma once
#include <string>
#include <vector>

#include "train/tasks/classification/images/set.h"

namespace foldgrad {

enum class FolderLayout { classes, tiny_imagenet };

// Reads all images of a part, cropped and scaled by square() (picture.h), class by class and sorted by name within a
// class. Labels are indices into `classes` or, if that is empty, into the part's classes, sorted by name. Throws
// FileError if the part has no class, if a class has no image or is not among `classes`, if read_picture() refuses an
// image, or if annotations are missing or do not match the images. Warns if the cache cannot be written; the images are
// then decoded again next time. Prints a note with the number of skipped files.
ImageSet read_folder(const std::string& directory, ImagePart part, std::int64_t size,
                     const std::vector<std::string>& classes = {}, FolderLayout layout = FolderLayout::classes);

// The number of images in each class of a part, and a text about skipped files, which is empty if no file was skipped.
struct FolderCounts {
  std::vector<std::string> classes;
  std::vector<std::int64_t> images;
  std::string left_out;
};
// Counts without decoding. Throws FileError if read_folder() does, except for faults in images.
FolderCounts count_folder(const std::string& directory, ImagePart part, FolderLayout layout = FolderLayout::classes);

// Returns the SHA-256 of pixels, labels and class names.
std::string digest_of(const ImageSet& images);

}  // namespace foldgrad
