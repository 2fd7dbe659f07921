// The binary layouts in which CIFAR-10 and CIFAR-100 are published (Krizhevsky, 2009): records of 32 x 32 pixels
// without a header. A record is a label, which in CIFAR-100 follows a coarser one that is not read, and 3,072
// bytes: the red plane, the green, the blue, each row-major.
#pragma once
#include <string>
#include <vector>

#include "train/data/images/set.h"

namespace foldgrad {

constexpr std::int64_t kCifarSide = 32;

struct CifarLayout {
  std::string directory;                 // the name that the archive gives it
  std::vector<std::string> train, test;  // files of records
  std::string classes;                   // a file of names, one a line
  std::int64_t label_bytes;              // the last of them is the label
  std::vector<std::string> names = {};   // names of the classes, where that file is absent
};
const CifarLayout& cifar10_layout();
const CifarLayout& cifar100_layout();

// Reads files of records, one after the other, or the record `only` of each; `classes`: their names. Throws FileError,
// which names the file: when it cannot be read, is empty, ends within a record, lacks that one, or, with record and
// byte, has a label that is no class.
ImageSet read_records(const std::vector<std::string>& paths, std::int64_t label_bytes,
                      const std::vector<std::string>& classes, std::int64_t only = -1);

// Returns the number of label bytes in a record of a file whose data set is not known: 2 where it can only consist of
// records of CIFAR-100, otherwise 1. Throws FileError.
std::int64_t cifar_label_bytes(const std::string& path);

// Returns a part's files below `directory`: those of records and, if it is there, that of names. There is no `valid`.
std::vector<std::string> cifar_files(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Reads a part. Throws FileError, as read_records() and for a file of names that is absent or empty.
ImageSet read_cifar(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Writes the layout of CIFAR-10, the training images in five files as equal as can be, which needs five of them at
// least. Throws FileError when a file cannot be written, std::invalid_argument for images that are not 32 x 32, for
// more than 256 classes, and for parts whose classes differ.
void write_cifar10(const std::string& directory, const ImageSet& train, const ImageSet& test);

}  // namespace foldgrad
