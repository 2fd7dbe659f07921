#include <fmt/format.h>
#include <turbojpeg.h>

#include <memory>

#include "engine/files/file.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/images/set.h"

namespace foldgrad {

bool jpeg_available() { return true; }

// Decodes with TurboJPEG, which prints nothing: a failed call returns -1 and leaves a message. Warnings are treated as
// errors, since a truncated file causes only a warning.
Picture decode_jpeg(const std::string& path, std::string_view content) {
  const std::unique_ptr<void, int (*)(tjhandle)> jpeg(tjInitDecompress(), tjDestroy);
  const auto require = [&](int result) {
    if (result != 0) throw FileError(path, fmt::format("JPEG: {}", tjGetErrorStr2(jpeg.get())));
  };
  if (!jpeg) throw FileError(path, fmt::format("JPEG: {}", tjGetErrorStr2(nullptr)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
  int width = 0, height = 0, subsampling = 0, colours = 0;
  require(tjDecompressHeader3(jpeg.get(), bytes, content.size(), &width, &height, &subsampling, &colours));
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) throw FileError(path, "JPEG: must be RGB or gray, got CMYK");
  check_size(path, "JPEG", width, height);
  Picture picture{height, width, std::vector<std::uint8_t>(std::size_t(width) * height * kColours)};
  require(tjDecompress2(jpeg.get(), bytes, content.size(), picture.pixels.data(), width, /*pitch=*/0, height, TJPF_RGB,
                        TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS));
  return picture;
}

}  // namespace foldgrad
