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

// Reads strictly: N is at most 100,000,000; names are unique, not empty; entries have these three keys and no others,
// at most 64 axes, and end - begin bytes by shape and dtype; sorted by offset they begin at 0, leave no gap, don't
// overlap and end with the file. Anything else throws FileError, which names the file, the place, what was expected and
// what came. Nothing that a file claims makes the reader ask for more memory at once than the file takes, beyond the
// few hundred bytes of the smallest block.
SafetensorsFile read_safetensors(const std::string& path);

// Replaces the file atomically. Larger elements come first, then names in order; the header is padded so that every
// tensor is aligned to its element size. `format` = `pt` is added to the metadata: Python needs it to load the file.
//
// Tensors of one storage, place, shape and dtype are written once; `alias.NAME` = `OTHER` in the metadata stands for
// the others. The reader makes NAME share OTHER's storage again, and leaves these keys out of what it returns. Other
// views that overlap are written as tensors of their own.
//
// Throws std::invalid_argument for an empty name or `__metadata__`, text that is not UTF-8, an undefined tensor, or
// metadata that would redefine `format` or an alias; FileError when the file cannot be written.
void write_safetensors(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace foldgrad
