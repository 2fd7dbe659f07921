// One picture of any size, and files that hold one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foldgrad {

struct Picture {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, 3], channels last: red, green, blue
};

// The most pixels of a picture: more are refused before memory is taken for them.
constexpr std::int64_t kMostPixels = std::int64_t(64) << 20;

bool png_available();   // this build has libpng
bool jpeg_available();  // this build has libjpeg-turbo

// Reads a PNG or JPEG file, recognized by its first bytes. Gray becomes three equal channels, 16 bits are rounded to 8,
// what is transparent is laid over white as light mixes, and gamma is applied where a PNG file has it. The orientation
// that a camera has noted (EXIF) is ignored. Throws FileError for files that are neither, that their library finds
// fault with, among them those that end too early, for JPEG of CMYK, and for more than kMostPixels.
Picture read_picture(const std::string& path);
// Decodes the content of one; `path` is for messages.
Picture decode_picture(const std::string& path, std::string_view content);

// Returns a PNG file. Throws std::runtime_error where the build lacks libpng.
std::string encode_png(const Picture& picture);

// Returns the largest square in the middle of a picture, scaled to size x size pixels: bilinear, and antialiased where
// it becomes smaller, as Pillow's BILINEAR. One row or column of the result, of n pixels x_j with the square from b to
// b + s:
//
//   [PIC-1]  y_i = sum_j w_ij x_j / sum_j w_ij with w_ij = max(0, 1 - |j + 1/2 - b - (i + 1/2) r| / max(r, 1)) and
//            r = s / size
//
// first for rows, then for columns, in f64, rounded to f32 between and to the nearest byte at the end. A picture of
// size x size is left as it is.
Picture square(const Picture& picture, std::int64_t size);

// Refuses a picture that is too large to decode; `format` is "PNG" or "JPEG". Throws FileError.
void check_size(const std::string& path, const char* format, std::int64_t width, std::int64_t height);

// Decode for read_picture(). Throw FileError where the build lacks their library.
Picture decode_png(const std::string& path, std::string_view content);
Picture decode_jpeg(const std::string& path, std::string_view content);

}  // namespace foldgrad
