// The binary layouts in which CIFAR-10 and CIFAR-100 are published (Krizhevsky, 2009): records of 32 x 32 pixels
// without a header. A record is a label, which in CIFAR-100 follows a coarser one that is not read, and 3,072
// bytes: the red plane, the green, the blue, each row-major.
#pragma once
#include <string>
#include <vector>

#include "engine/files/file.h"
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

// One file of records.
class CifarFile {
 public:
  // Throws FileError, which names the file: when it cannot be read, is empty or ends within a record.
  CifarFile(std::string path, std::int64_t label_bytes);

  const std::string& path() const { return file_.path(); }
  std::int64_t size() const { return records_; }
  // Returns the label, and writes the 32 x 32 x 3 bytes of the image, channels last, to `pixels`. Throws FileError,
  // with record and byte, for a label that is not below `classes`.
  std::int64_t read(std::int64_t record, std::int64_t classes, std::uint8_t* pixels) const;

 private:
  InputFile file_;
  std::int64_t label_bytes_, records_;
};

// Returns the bytes of labels in a record of a file whose data set is not known: 2 where it can only consist of records
// of CIFAR-100, otherwise 1. Throws FileError.
std::int64_t cifar_label_bytes(const std::string& path);

// Returns a part's files below `directory`: those of records and, if it is there, that of names. There is no `valid`.
std::vector<std::string> cifar_files(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Reads a part. Throws FileError, which names the file: when it cannot be read, is empty, ends within a record, or,
// with record and byte, has a label that is no class.
ImageSet read_cifar(const std::string& directory, const CifarLayout& layout, ImagePart part);

// Writes the layout of CIFAR-10, the training images in five files as equal as can be, which needs five of them at
// least. Throws FileError when a file cannot be written, std::invalid_argument for images that are not 32 x 32, for
// more than 256 classes, and for parts whose classes differ.
void write_cifar10(const std::string& directory, const ImageSet& train, const ImageSet& test);

}  // namespace foldgrad
