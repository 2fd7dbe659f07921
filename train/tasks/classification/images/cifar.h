// The binary layouts in which CIFAR-10 and CIFAR-100 are published (Krizhevsky, 2009): records of 32 x 32 pixels
// without a header. A record is a label, which in CIFAR-100 follows a coarser one that is not read, and 3,072 bytes:
// the red, the green and the blue plane, each row-major.
#pragma once
#include <string>
#include <vector>

#include "train/tasks/classification/images/set.h"

namespace foldgrad {

constexpr std::int64_t kCifarSide = 32;

struct CifarLayout {
  std::string directory;                 // its name in the archive
  std::vector<std::string> train, test;  // files of records
  std::string classes;                   // a file of names, one a line
  std::int64_t label_bytes;              // the last of them is the label
  std::vector<std::string> names = {};   // names of the classes if that file is missing
};
const CifarLayout& cifar10_layout();
const CifarLayout& cifar100_layout();

// Reads files of records, one file after another, or only record `only` of each file. `classes` has the names of the
// classes. Throws FileError, which names the file, if it cannot be read, is empty, ends within a record or lacks record
// `only`. If a label is not a class, the message also names the record and the byte.
ImageSet read_records(const std::vector<std::string>& paths, std::int64_t label_bytes,
                      const std::vector<std::string>& classes, std::int64_t only = -1);

// Returns the number of label bytes in a record of a file of an unknown data set: 2 if only records of CIFAR-100 fit
// its size, otherwise 1. Throws FileError.
std::int64_t cifar_label_bytes(const std::string& path);

// Returns a part's files below `directory`: the files of records and, if it exists, the file of names. The part `valid`
// has no files.
std::vector<std::string> cifar_files(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Reads a part. Throws FileError as read_records() does, and for a file of names that is missing or empty.
ImageSet read_cifar(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Writes the layout of CIFAR-10. The training images, at least five, are divided into five files of nearly equal size.
// Throws FileError if a file cannot be written; std::invalid_argument for images that are not 32 x 32, more than 256
// classes, and parts with different classes.
void write_cifar10(const std::string& directory, const ImageSet& train, const ImageSet& test);

}  // namespace foldgrad
