#include <fmt/format.h>
#include <png.h>

#include <stdexcept>

#include "engine/files/file.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/images/set.h"

namespace foldgrad {
namespace {

// libpng's simplified interface, which neither jumps nor prints: a failed call returns 0 and leaves a message.
struct Png : png_image {
  Png() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(this); }
};

}  // namespace

bool png_available() { return true; }

Picture decode_png(const std::string& path, std::string_view content) {
  Png png;
  const auto require = [&](int worked) {
    if (!worked || png.warning_or_error > 1) throw FileError(path, fmt::format("PNG: {}", png.message));
  };
  require(png_image_begin_read_from_memory(&png, content.data(), content.size()));
  check_size(path, "PNG", png.width, png.height);
  png.format = PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16-bit values are sRGB, like 8-bit ones, unless the file says otherwise
  Picture picture{png.height, png.width, {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(png));
  constexpr png_color kWhite{255, 255, 255};
  require(png_image_finish_read(&png, &kWhite, picture.pixels.data(), /*row_stride=*/0, nullptr));
  return picture;
}

std::string encode_png(const Picture& picture) {
  Png png;
  png.width = png_uint_32(picture.width), png.height = png_uint_32(picture.height), png.format = PNG_FORMAT_RGB;
  const auto write = [&](void* to, png_alloc_size_t& bytes) {
    if (!png_image_write_to_memory(&png, to, &bytes, 0, picture.pixels.data(), /*row_stride=*/0, nullptr))
      throw std::runtime_error(fmt::format("PNG: {}", png.message));
  };
  png_alloc_size_t bytes = 0;
  write(nullptr, bytes);
  std::string file(bytes, '\0');
  write(file.data(), bytes);
  return file;
}

}  // namespace foldgrad
