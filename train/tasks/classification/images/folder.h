// Images in folders: DIRECTORY/PART/CLASS/NAME, where PART is train or test and NAME ends with .png, .jpg or .jpeg,
// also in capitals. Other files, files in subfolders of a class, and names that begin with a dot are skipped.
//
// TinyImageNet has DIRECTORY/train/CLASS/images/NAME and DIRECTORY/val/images/NAME. Its part `val` is the test here:
// the archive's test has no labels. DIRECTORY/val/val_annotations.txt has a line for each image of val: its name, its
// class and a box, with tabs in between; the box does not count.
//
// Images are decoded once, into DIRECTORY/PART-SIZE.images, a safetensors file, which is read instead as long as the
// names, sizes and modification times of all images are the same.
#pragma once
#include <string>
#include <vector>

#include "train/tasks/classification/images/set.h"

namespace foldgrad {

enum class FolderLayout { classes, tiny_imagenet };

// Reads all images of a part as square() makes them (picture.h), class after class and by name within a class.
// Labels are indices into `classes`; if it is empty, into the part's classes, sorted by name. Throws FileError for a
// part without a class, a class without an image, a class that is not among `classes`, for images that read_picture()
// refuses, and for annotations that are missing or do not fit the images. If the directory cannot be written to, warns
// once for each part and decodes anew each time. Prints a note with the number of skipped files.
ImageSet read_folder(const std::string& directory, ImagePart part, std::int64_t size,
                     const std::vector<std::string>& classes = {}, FolderLayout layout = FolderLayout::classes);

// The number of images of each class of a part, and a text about skipped files, which is empty if no file was skipped.
struct FolderCounts {
  std::vector<std::string> classes;
  std::vector<std::int64_t> images;
  std::string left_out;
};
// Counts without decoding. Throws FileError as read_folder() does, except for faults in images.
FolderCounts count_folder(const std::string& directory, ImagePart part, FolderLayout layout = FolderLayout::classes);

// Returns the SHA-256 of pixels, labels and names of classes.
std::string digest_of(const ImageSet& images);

}  // namespace foldgrad
