#include "train/tasks/classification/images/picture.h"

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "tests/train/tasks/classification/images/png_file.h"

namespace foldgrad::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string refusal(const std::string& content) {
  return message<FileError>([&] { decode_picture("a", content); });
}

// Makes a picture from its red channel; green is half of it, and blue is 7.
Picture picture(std::int64_t height, std::int64_t width, const Bytes& red) {
  Picture p{height, width, {}};
  for (const std::uint8_t value : red) p.pixels.insert(p.pixels.end(), {value, std::uint8_t(value / 2), 7});
  return p;
}
Bytes red_of(const Picture& p) {
  Bytes red;
  for (std::size_t i = 0; i < p.pixels.size(); i += 3) {
    red.push_back(p.pixels[i]);
    EXPECT_EQ(p.pixels[i + 2], 7);
  }
  return red;
}

TEST(Square, PIC_1_WorkedByHand) {
  // Scales to half the size. The centres of the new pixels are 1 and 3. The two nearest pixels have a weight of 3/4,
  // and the next two, if they exist, 1/4.
  const Bytes line{10, 30, 50, 230};
  Bytes four;
  for (int row = 0; row < 4; ++row) four.insert(four.end(), line.begin(), line.end());
  // (3/4 10 + 3/4 30 + 1/4 50) / (7/4) = 24.3; (1/4 30 + 3/4 50 + 3/4 230) / (7/4) = 124.3
  EXPECT_EQ(red_of(square(picture(4, 4, four), 2)), (Bytes{24, 124, 24, 124}));
  // Scales to twice the size. In a line of two pixels, the new centres are 1/4, 3/4, 5/4 and 7/4. For the middle two,
  // the nearer pixel has a weight of 3/4, and the farther pixel 1/4.
  EXPECT_EQ(red_of(square(picture(2, 2, {0, 100, 0, 100}), 4)),
            (Bytes{0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100}));
  // Rows are scaled like columns.
  EXPECT_EQ(red_of(square(picture(2, 2, {0, 0, 100, 100}), 4)),
            (Bytes{0, 0, 0, 0, 25, 25, 25, 25, 75, 75, 75, 75, 100, 100, 100, 100}));
  // Scales to two thirds of the size. The new centres are 3/4 and 9/4. For each of them, the nearest pixel has the
  // weight 5/6 and the next pixel 1/2; both are divided by their sum, 4/3.
  EXPECT_EQ(red_of(square(picture(3, 3, {0, 64, 90, 0, 64, 90, 0, 64, 90}), 2)), (Bytes{24, 80, 24, 80}));
}

TEST(Square, TakesTheMiddleAndLeavesWhatFits) {
  const Picture wide = picture(2, 4, {1, 2, 3, 4, 5, 6, 7, 8}), high = picture(4, 2, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(red_of(square(wide, 2)), (Bytes{2, 3, 6, 7}));
  EXPECT_EQ(red_of(square(high, 2)), (Bytes{3, 4, 5, 6}));
  EXPECT_EQ(red_of(square(picture(2, 2, {9, 8, 7, 6}), 2)), (Bytes{9, 8, 7, 6}));
  // If the sides differ by an odd number, the crop begins in the middle of a pixel.
  EXPECT_EQ(red_of(square(picture(1, 2, {10, 20}), 1)), (Bytes{15}));
}

TEST(Square, AnEvenPictureStaysEven) {
  for (const std::int64_t size : {1, 3, 8, 100})
    for (const std::uint8_t value : square(Picture{7, 9, Bytes(7 * 9 * 3, 201)}, size).pixels) ASSERT_EQ(value, 201);
}

TEST(DecodePng, GivesThePixelsOfEveryKind) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  const auto pixels = [](const std::string& file, std::int64_t height, std::int64_t width) {
    const Picture p = decode_picture("a", file);
    EXPECT_EQ(p.height, height);
    EXPECT_EQ(p.width, width);
    return p.pixels;
  };
  const std::string six{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(pixels(png_file(2, 1, 8, PngColour::rgb, six), 1, 2), (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pixels(png_file(1, 2, 8, PngColour::rgb, six), 2, 1), (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pixels(png_file(2, 1, 8, PngColour::gray, {5, char(250)}), 1, 2), (Bytes{5, 5, 5, 250, 250, 250}));
  EXPECT_EQ(pixels(png_file(3, 1, 1, PngColour::gray, {char(0xa0)}), 1, 3),
            (Bytes{255, 255, 255, 0, 0, 0, 255, 255, 255}));
  const std::string sixteen{char(0x80), char(0x80), 1, 1, char(0xff), char(0xff)};
  EXPECT_EQ(pixels(png_file(1, 1, 16, PngColour::rgb, sixteen), 1, 1), (Bytes{128, 1, 255}));
  const std::string palette = chunk("PLTE", {9, 8, 7, 6, 5, 4});
  EXPECT_EQ(pixels(png_file(2, 1, 8, PngColour::palette, {1, 0}, palette), 1, 2), (Bytes{6, 5, 4, 9, 8, 7}));
}

TEST(EncodePng, IsReadAgain) {
  if (!png_available()) {
    EXPECT_EQ(message<std::runtime_error>([] { encode_png(picture(1, 1, {0})); }),
              "PNG: this build cannot write PNG files");
    GTEST_SKIP() << "this build lacks libpng";
  }
  const Picture p = picture(2, 3, {1, 200, 30, 40, 5, 255}), got = decode_picture("a", encode_png(p));
  EXPECT_EQ(got.height, 2);
  EXPECT_EQ(got.width, 3);
  EXPECT_EQ(got.pixels, p.pixels);
}

TEST(DecodePng, LaysWhatIsTransparentOverWhite) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  const std::string three{9, 8, 7, char(255), 9, 8, 7, 0, 0, 0, 0, char(128)};
  const Bytes got = decode_picture("a", png_file(3, 1, 8, PngColour::rgba, three)).pixels;
  EXPECT_EQ(Bytes(got.begin(), got.begin() + 6), (Bytes{9, 8, 7, 255, 255, 255}));
  EXPECT_NEAR(got[6], 187, 2);  // half the light of white, according to libpng's gamma tables
  EXPECT_EQ(decode_picture("a", png_file(1, 1, 8, PngColour::gray_alpha, {3, char(255)})).pixels, (Bytes{3, 3, 3}));
}

TEST(DecodePng, WhatIsCutOffOrDamagedIsRefused) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  std::string good = png_file(2, 2, 8, PngColour::rgb, "abcdefghijkl");
  const std::size_t last = good.size() - chunk("IEND", "").size();  // decoding does not need the IEND chunk
  for (std::size_t n = 8; n < last; ++n) ASSERT_EQ(refusal(good.substr(0, n)).find("a: PNG: "), 0u) << n;
  EXPECT_EQ(refusal(good), "no error");
  good[last - 7] = char(good[last - 7] + 1);  // changes the checksum of the image data
  EXPECT_EQ(refusal(good).find("a: PNG: "), 0u);
}

TEST(DecodePng, AHugePictureIsRefusedByItsHeader) {
  if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
  EXPECT_EQ(refusal(png_file(8193, 8192, 8, PngColour::rgb, "")),
            "a: PNG: must have 1 to 67108864 pixels, got 8193 x 8192");
  EXPECT_NE(refusal(png_file(8192, 8192, 8, PngColour::rgb, "")).find("a: PNG: "), std::string::npos);
}

using DecodePicture = FileTest;

TEST_F(DecodePicture, OtherFilesAreNamed) {
  for (const std::string content : {"", "GIF89a", "\x89PNG", "\xff\xd8"})
    EXPECT_EQ(refusal(content), "a: must be a PNG or JPEG file");
  EXPECT_EQ(error_of<FileError>([&] { read_picture(files_ / "absent"); }),
            "@absent: cannot be opened: No such file or directory");
  if (!png_available()) {
    EXPECT_EQ(refusal(png_file(1, 1, 8, PngColour::gray, "a")),
              "a: this build cannot read PNG; install libpng-dev and configure with FOLDGRAD_LIBPNG=ON");
  }
  if (!jpeg_available()) {
    EXPECT_EQ(refusal("\xff\xd8\xff"),
              "a: this build cannot read JPEG; install libturbojpeg0-dev and configure with FOLDGRAD_TURBOJPEG=ON");
  }
}

std::string golden(const std::string& name) { return read_bytes(FOLDGRAD_SOURCE_DIR "/tests/golden/pictures/" + name); }

// tests/golden/pictures/make.py made these JPEG images. They are 16 x 8 pixels and have one colour in the left half and
// another in the right half.
TEST(DecodeJpeg, GivesTheColoursThatWereCompressed) {
  if (!jpeg_available()) GTEST_SKIP() << "this build lacks libjpeg-turbo";
  struct Case {
    const char* name;
    Bytes left, right;
  };
  for (const auto& [name, left, right] : {Case{"colours.jpg", {200, 40, 90}, {10, 160, 250}},
                                          {"progressive.jpg", {200, 40, 90}, {10, 160, 250}},
                                          {"gray.jpg", {30, 30, 30}, {220, 220, 220}}}) {
    const Picture p = decode_picture(name, golden(name));
    ASSERT_EQ(p.height, 8);
    ASSERT_EQ(p.width, 16);
    for (std::int64_t i = 0; i < 8 * 16 * 3; ++i) {
      const Bytes& want = i / 3 % 16 < 8 ? left : right;
      ASSERT_NEAR(p.pixels[i], want[i % 3], 2) << name << " " << i;  // the quality is 95
    }
  }
}

TEST(DecodeJpeg, WhatIsCutOffOrOfOtherColoursIsRefused) {
  if (!jpeg_available()) GTEST_SKIP() << "this build lacks libjpeg-turbo";
  for (const char* name : {"colours.jpg", "progressive.jpg"}) {
    const std::string good = golden(name);
    for (std::size_t n = 3; n + 2 < good.size(); ++n)  // the last two bytes mark the end
      ASSERT_EQ(refusal(good.substr(0, n)).find("a: JPEG: "), 0u) << name << " " << n;
  }
  EXPECT_EQ(refusal(golden("cmyk.jpg")), "a: JPEG: must be RGB or gray, got CMYK");
  std::string huge = golden("colours.jpg");
  const std::size_t frame = huge.find("\xff\xc0") + 5;  // offset of the height and the width
  huge.replace(frame, 4, "\xff\xdc\xff\xdc");
  EXPECT_EQ(refusal(huge), "a: JPEG: must have 1 to 67108864 pixels, got 65500 x 65500");
}

}  // namespace
}  // namespace foldgrad::testing
