// Pictures of any size, read from image files.
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

// The largest number of pixels in a picture. Larger pictures are refused before memory is allocated for them.
constexpr std::int64_t kMostPixels = std::int64_t(64) << 20;

bool png_available();   // true if this build has libpng
bool jpeg_available();  // true if this build has libjpeg-turbo

// Reads a PNG or JPEG file, recognized by its first bytes. Gray becomes three equal channels, 16 bits are rounded to 8,
// transparent pixels are blended with white in linear light, and a PNG file's gamma is applied. A camera's orientation
// (EXIF) is ignored. Throws FileError for files in other formats, files that the decoder rejects (for example truncated
// ones), CMYK JPEG files, and pictures with more than kMostPixels pixels.
Picture read_picture(const std::string& path);
// Decodes the content of a PNG or JPEG file; `path` is only for messages.
Picture decode_picture(const std::string& path, std::string_view content);

// Returns the content of a PNG file with this picture. Throws std::runtime_error if the build lacks libpng.
std::string encode_png(const Picture& picture);

// Crops a picture to its largest centred square and scales the square to size x size pixels. Interpolation is bilinear,
// and antialiased when shrinking, as in Pillow's BILINEAR. For a row or column of pixels x_j, of which the square
// covers b to b + s:
//
//   [PIC-1]  y_i = sum_j w_ij x_j / sum_j w_ij with w_ij = max(0, 1 - |j + 1/2 - b - (i + 1/2) r| / max(r, 1)) and
//            r = s / size
//
// Rows are scaled first, then columns, in f64; the result is rounded to f32 in between and to the nearest byte at the
// end. A picture of size x size is returned unchanged.
Picture square(const Picture& picture, std::int64_t size);

// Throws FileError if a picture is empty or too large to decode. `format` is "PNG" or "JPEG".
void check_size(const std::string& path, const char* format, std::int64_t width, std::int64_t height);

// The decoders of read_picture(). They throw FileError if the build lacks libpng or libjpeg-turbo.
Picture decode_png(const std::string& path, std::string_view content);
Picture decode_jpeg(const std::string& path, std::string_view content);

}  // namespace foldgrad
