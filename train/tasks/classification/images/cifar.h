// The binary layouts in which CIFAR-10 and CIFAR-100 are published (Krizhevsky, 2009). A file has no header, only a
// record for each image of 32 x 32 pixels: a label byte and 3,072 bytes of pixels, which are the red, the green and the
// blue plane, each row-major. In CIFAR-100 a coarse label, which is not read, precedes the label.
#pragma once
#include <string>
#include <vector>

#include "train/tasks/classification/images/set.h"

namespace foldgrad {

constexpr std::int64_t kCifarSide = 32;

struct CifarLayout {
  std::string directory;                 // name of the directory in the archive
  std::vector<std::string> train, test;  // names of the files with records
  std::string classes;                   // name of a file that lists the classes, one per line
  std::int64_t label_bytes;              // number of label bytes per record; the last one is the label
  std::vector<std::string> names = {};   // names of the classes to use if that file is missing
};
const CifarLayout& cifar10_layout();
const CifarLayout& cifar100_layout();

// Reads the records of the files, one file after another. If `only` is not negative, reads only record `only` of each
// file. `classes` has the names of the classes. Throws FileError, which names the file, if it cannot be read, is empty,
// ends within a record or lacks record `only`. If a label is not a class, the message also names the record and the
// byte.
ImageSet read_records(const std::vector<std::string>& paths, std::int64_t label_bytes,
                      const std::vector<std::string>& classes, std::int64_t only = -1);

// Guesses the label bytes per record: 2 if only records of CIFAR-100 fit the file's size, else 1. Throws FileError.
std::int64_t cifar_label_bytes(const std::string& path);

// Returns a part's files below `directory`: the record files and, if it exists, the file of class names. CIFAR has no
// part `valid`, so `part` is `train` or `test`.
std::vector<std::string> cifar_files(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Reads a part. Throws FileError if read_records() does, if the file of class names is empty, or if that file is
// missing and the layout has no names.
ImageSet read_cifar(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Writes images in the layout of CIFAR-10, with the training images in five files of nearly equal size. Throws
// FileError if a file cannot be written, and std::invalid_argument if there are fewer than five training images, images
// are not 32 x 32, there are more than 256 classes, or the parts have different classes.
void write_cifar10(const std::string& directory, const ImageSet& train, const ImageSet& test);

}  // namespace foldgrad
