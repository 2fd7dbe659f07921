#include "engine/files/file.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad {

bool jpeg_available() { return false; }

Picture decode_jpeg(const std::string& path, std::string_view) {
  throw FileError(path,
                  "this build cannot read JPEG; install libturbojpeg0-dev and configure with FOLDGRAD_TURBOJPEG=ON");
}

}  // namespace foldgrad
