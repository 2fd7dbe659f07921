// What Pillow makes of the same images: tests/golden/pictures/make.py.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "engine/files/safetensors.h"
#include "train/data/images/picture.h"
#include "train/data/images/randaugment.h"

namespace foldgrad::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

const SafetensorsFile& golden() {
  static const SafetensorsFile file = read_safetensors(FOLDGRAD_SOURCE_DIR "/tests/golden/pictures/pillow.safetensors");
  return file;
}

Picture picture(const std::string& name) {
  const Tensor& t = golden().tensors.at(name);
  return {t.shape()[0], t.shape()[1], t.values<std::uint8_t>()};
}

int largest_difference(const Bytes& a, const Bytes& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

const std::map<std::string, PictureOp> kNames{{"autocontrast", PictureOp::autocontrast},
                                              {"equalize", PictureOp::equalize},
                                              {"invert", PictureOp::invert},
                                              {"posterize", PictureOp::posterize},
                                              {"solarize", PictureOp::solarize},
                                              {"rotate", PictureOp::rotate},
                                              {"shear_x", PictureOp::shear_x},
                                              {"shear_y", PictureOp::shear_y},
                                              {"translate_x", PictureOp::translate_x},
                                              {"translate_y", PictureOp::translate_y},
                                              {"colour", PictureOp::colour},
                                              {"contrast", PictureOp::contrast},
                                              {"brightness", PictureOp::brightness},
                                              {"sharpness", PictureOp::sharpness}};

// Pillow cuts off what bilinear interpolation gives, where we round it: that is one gray level. All else is exact.
TEST(Pillow, RND_1_RND_2_RND_3_RND_4_RND_5_DoesTheSame) {
  int compared = 0;
  for (const auto& [name, tensor] : golden().tensors) {
    std::istringstream words(name);
    std::string op;
    double m = 0;
    if (!(words >> op >> m) || !kNames.count(op)) continue;
    Picture p = picture("small");
    const Bytes before = p.pixels;
    apply(kNames.at(op), m, {p.height, p.width, {10, 200, 90}, p.pixels.data()});
    const bool bilinear = op == "rotate" || op.starts_with("shear") || op.starts_with("translate");
    EXPECT_LE(largest_difference(p.pixels, tensor.values<std::uint8_t>()), bilinear ? 1 : 0) << name;
    EXPECT_GT(largest_difference(p.pixels, before), 4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 30);
}

// Pillow rounds between rows and columns, and we do not.
TEST(Pillow, PIC_1_ScalesTheSame) {
  for (const std::int64_t size : {1, 7, 32, 41, 50}) {
    const Picture got = square(picture("large"), size), want = picture("square " + std::to_string(size));
    ASSERT_EQ(got.height, size);
    EXPECT_LE(largest_difference(got.pixels, want.pixels), 1) << size;
  }
}

}  // namespace
}  // namespace foldgrad::testing
