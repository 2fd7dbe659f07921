// Files of named tensors in the safetensors format, which other frameworks also read and write:
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
  NamedTensors tensors;  // all tensors are on the host
  std::map<std::string, std::string> metadata;
};

// Reads strictly. N must be at most 100,000,000. Names must be unique and not empty. An entry must have these three
// keys and no others, and at most 64 axes. Its size, end - begin, must fit its shape and dtype. Sorted by offset, the
// entries must begin at 0, leave no gaps, not overlap, and end with the file. Otherwise throws FileError with the file,
// the position, the requirement and the value found. Whatever the file claims, the reader never allocates more at once
// than the file's size plus a few hundred bytes.
SafetensorsFile read_safetensors(const std::string& path);

// Replaces the file atomically. Tensors are ordered by element size, largest first, then by name. The header is padded
// so that every tensor is aligned to its element size. Adds the metadata `format` = `pt`, which Python libraries need.
//
// Tensors that share storage, offset, shape and dtype are written once, under one of their names, OTHER. For every
// other name, NAME, the metadata has `alias.NAME` = `OTHER`. The reader makes NAME share OTHER's storage again and
// removes these keys. All other overlapping views are written as separate tensors.
//
// Throws std::invalid_argument for an empty name or `__metadata__`, for text that is not UTF-8, for an undefined
// tensor, and for metadata that would redefine `format` or an alias. Throws FileError if the file cannot be written.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace foldgrad
