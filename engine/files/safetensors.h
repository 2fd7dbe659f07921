// Named tensors in a file, in the safetensors format, which other frameworks read and write too:
//   8 bytes    N, little-endian
//   N bytes    a JSON object {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//              "__metadata__": {"KEY": "VALUE", ...}}, padded with spaces; offsets count from the end of the header
//   the rest   the values, row-major and little-endian
// Element types: F64 F32 BF16 I64 I32 U8.
#pragma once
#include <map>
#include <string>

#include "engine/named_tensors.h"

namespace foldgrad {

struct SafetensorsFile {
  NamedTensors tensors;  // on the host
  std::map<std::string, std::string> metadata;
};

// Reads strictly. N is at most 100,000,000. Names are unique and not empty. An entry has these three keys and no
// others, at most 64 axes, and end - begin bytes by its shape and dtype. Sorted by offset, entries begin at 0, leave no
// gap, don't overlap and end with the file. Anything else throws FileError with the file, the place, the requirement
// and the value found. A false claim in the file cannot make the reader allocate more at once than the file's size plus
// a few hundred bytes.
SafetensorsFile read_safetensors(const std::string& path);

// Replaces the file atomically. Tensors with larger elements come first, then names in order. Padding of the header
// aligns every tensor to its element size. Adds `format` = `pt` to the metadata, which Python needs to load the file.
//
// Tensors with the same storage, offset, shape and dtype are written once. For each of the others the metadata has
// `alias.NAME` = `OTHER`. The reader makes NAME share OTHER's storage again and removes these keys. Other overlapping
// views are written as separate tensors.
//
// Throws std::invalid_argument for an empty name or `__metadata__`, for text that is not UTF-8, for an undefined
// tensor, and for metadata that would redefine `format` or an alias. Throws FileError if the file cannot be written.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace foldgrad
