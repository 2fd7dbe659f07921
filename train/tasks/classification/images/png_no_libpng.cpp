#include <stdexcept>

#include "engine/files/file.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad {

bool png_available() { return false; }

Picture decode_png(const std::string& path, std::string_view) {
  throw FileError(path, "this build cannot read PNG; install libpng-dev and configure with FOLDGRAD_LIBPNG=ON");
}

std::string encode_png(const Picture&) { throw std::runtime_error("PNG: this build cannot write PNG files"); }

}  // namespace foldgrad
