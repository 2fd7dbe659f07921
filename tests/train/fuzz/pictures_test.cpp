// Damaged PNG and JPEG files.
#include "tests/train/data/images/png_file.h"
#include "tests/train/fuzz/fuzz.h"
#include "train/data/images/picture.h"

namespace foldgrad::testing {
namespace {

class FuzzPictures : public Fuzz {
 protected:
  void damage(const std::string& good, int inputs, int rarely, const std::function<std::string(std::string)>& repair) {
    write("picture", good);
    fuzz(
        "picture", [&](Mutator& m, const std::string& file) { return repair(m.bytes(file)); }, inputs, rarely,
        [&] {
          const Picture p = read_picture(files_ / "picture");
          EXPECT_EQ(std::int64_t(p.pixels.size()), p.height * p.width * 3);
          EXPECT_LE(p.height * p.width, kMostPixels);
        });
  }
};

// The check sums of chunks are put right, or few mutants would come further than them.
std::string with_check_sums(std::string file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    std::size_t size = 0;
    for (int i = 0; i < 4; ++i) size = size << 8 | std::uint8_t(file[at + i]);
    if (size > file.size() - at - 12) break;
    file.replace(at + 8 + size, 4, big_endian(crc32(file.substr(at + 4, 4 + size))));
    at += 12 + size;
  }
  return file;
}

TEST_F(FuzzPictures, Png) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  const std::string palette = chunk("gAMA", big_endian(45455)) + chunk("PLTE", {9, 8, 7, 6, 5, 4, 3, 2, 1});
  for (const std::string& good :
       {png_file(3, 2, 8, PngColour::rgba, "abcdefghijklmnopqrstuvwx"), png_file(2, 2, 16, PngColour::gray, "abcdefgh"),
        png_file(5, 2, 2, PngColour::palette, "\x18\x40\x90\x80", palette)})
    damage(good, 500, 50, with_check_sums);
  damage(png_file(3, 1, 8, PngColour::rgb, "abcdefghi"), 300, 300, [](std::string file) { return file; });
}

TEST_F(FuzzPictures, Jpeg) {
  if (!jpeg_available()) GTEST_SKIP() << "this build lacks libjpeg-turbo";
  for (const char* name : {"colours.jpg", "progressive.jpg", "gray.jpg"})
    damage(read_bytes(FOLDGRAD_SOURCE_DIR "/tests/golden/pictures/" + std::string(name)), 500, 50,
           [](std::string file) { return file; });
}

}  // namespace
}  // namespace foldgrad::testing
