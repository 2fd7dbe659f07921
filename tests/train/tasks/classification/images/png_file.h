// Makes PNG files as specified in ISO/IEC 15948, without a library.
#pragma once
#include <cstdint>
#include <string>

namespace foldgrad::testing {

inline std::string big_endian(std::uint32_t n) { return {char(n >> 24), char(n >> 16), char(n >> 8), char(n)}; }

inline std::uint32_t crc32(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= std::uint8_t(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc;
}

inline std::string chunk(const std::string& kind, const std::string& content) {
  return big_endian(std::uint32_t(content.size())) + kind + content + big_endian(crc32(kind + content));
}

// Returns a zlib stream with one uncompressed block. `bytes` must have fewer than 65,536 bytes.
inline std::string stored(const std::string& bytes) {
  const std::uint32_t n = std::uint32_t(bytes.size());
  std::uint32_t a = 1, b = 0;  // Adler-32
  for (const char byte : bytes) {
    a = (a + std::uint8_t(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return std::string("\x78\x01\x01", 3) + char(n) + char(n >> 8) + char(~n) + char(~n >> 8) + bytes +
         big_endian(b << 16 | a);
}

enum class PngColour { gray = 0, rgb = 2, palette = 3, gray_alpha = 4, rgba = 6 };

// Makes a PNG file. `samples` contains the bytes of all rows, without their filter bytes. `before` contains chunks to
// insert before the image data.
inline std::string png_file(std::uint32_t width, std::uint32_t height, int depth, PngColour colour,
                            const std::string& samples, const std::string& before = "") {
  std::string rows;
  const std::size_t bytes = height == 0 ? 0 : samples.size() / height;
  for (std::size_t y = 0; y < height && bytes > 0; ++y) rows += '\0' + samples.substr(y * bytes, bytes);
  const std::string header = big_endian(width) + big_endian(height) + char(depth) + char(colour) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + before + chunk("IDAT", stored(rows)) + chunk("IEND", "");
}

}  // namespace foldgrad::testing
