// Compares image augmentation with its definition and with Pillow.
#include "train/tasks/classification/augmentation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "engine/files/safetensors.h"
#include "engine/philox.h"
#include "tests/engine/error_message.h"
#include "tests/train/tasks/classification/images/counting_images.h"
#include "train/tasks/classification/images/picture.h"
#include "train/tasks/classification/randaugment.h"

namespace foldgrad::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes augmented(const Augmentation& a, const ImageSet& images, std::int64_t i, std::uint64_t seed, std::int64_t epoch) {
  Bytes out(images.image_bytes());
  augment(a, images, i, seed, epoch, out.data());
  return out;
}

// Makes one image. The red of each pixel is its number, from 1 to H W; green and blue are 0.
ImageSet numbered(std::int64_t height, std::int64_t width) {
  ImageSet images = counting_images(1, height, width, 1);
  images.pixels.zero();
  for (std::int64_t p = 0; p < height * width; ++p) images.pixels.data<std::uint8_t>()[p * 3] = std::uint8_t(p + 1);
  return images;
}

std::string reds(const Bytes& image) {
  std::string text;
  for (std::size_t p = 0; p < image.size(); p += 3) text += std::to_string(image[p]) + ' ';
  return text;
}

// With a border of 1, a 2 x 2 image has the 9 crops listed here. In 900 epochs, each occurs about 100 times, with a
// standard deviation of 9.4. The bound of 47 is five deviations; some count exceeds it for one seed in 110,000.
TEST(Augmentation, AUG_1_EveryCropIsAsLikely) {
  const ImageSet images = numbered(2, 2);
  std::map<std::string, int> times{{"0 0 0 1 ", 0}, {"0 0 1 2 ", 0}, {"0 0 2 0 ", 0}, {"0 1 0 3 ", 0}, {"1 2 3 4 ", 0},
                                   {"2 0 4 0 ", 0}, {"0 3 0 0 ", 0}, {"3 4 0 0 ", 0}, {"4 0 0 0 ", 0}};
  for (std::int64_t epoch = 0; epoch < 900; ++epoch) ++times[reds(augmented({.crop = 1}, images, 0, 1, epoch))];
  EXPECT_EQ(times.size(), 9u);
  for (const auto& [crop, count] : times) EXPECT_NEAR(count, 100, 47) << crop;
}

// torchvision's RandomCrop pads the image by p on each side with its fill colour, and cuts out any window of the
// image's size.
TEST(Augmentation, AUG_1_CropsAreTheWindowsOfThePaddedImage) {
  constexpr std::int64_t H = 3, W = 4, p = 2, columns = W + 2 * p;
  const ImageSet images = counting_images(1, H, W, 1);
  const Augmentation a{.crop = p, .border = {4, 5, 6}, .fill = {7, 8, 9}};
  Bytes padded;
  for (std::int64_t pixel = 0; pixel < (H + 2 * p) * columns; ++pixel) padded.insert(padded.end(), {4, 5, 6});
  for (std::int64_t h = 0; h < H; ++h)
    std::copy_n(images.image(0) + h * W * 3, W * 3, padded.begin() + ((h + p) * columns + p) * 3);
  std::set<Bytes> windows, seen;
  for (std::int64_t top = 0; top <= 2 * p; ++top)
    for (std::int64_t left = 0; left <= 2 * p; ++left) {
      Bytes window;
      for (std::int64_t h = top; h < top + H; ++h) {
        const auto row = padded.begin() + (h * columns + left) * 3;
        window.insert(window.end(), row, row + W * 3);
      }
      windows.insert(window);
    }
  ASSERT_EQ(windows.size(), 25u);
  // The probability that 500 epochs miss one of the 25 windows is 3e-8.
  for (std::int64_t epoch = 0; epoch < 500; ++epoch) seen.insert(augmented(a, images, 0, 1, epoch));
  EXPECT_EQ(seen, windows);
}

// About 1,000 of the 2,000 epochs mirror the image, with a standard deviation of 22.4. The bounds are five deviations.
TEST(Augmentation, AUG_2_HalfOfTheImagesAreMirrored) {
  const ImageSet images = numbered(1, 3);
  int mirrored = 0, changes = 0;
  bool before = false;
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch) {
    const std::string row = reds(augmented({.flip = Flip::random}, images, 0, 1, epoch));
    ASSERT_TRUE(row == "1 2 3 " || row == "3 2 1 ") << row;
    mirrored += row == "3 2 1 ";
    changes += before != (row == "3 2 1 ");
    before = row == "3 2 1 ";
  }
  EXPECT_NEAR(mirrored, 1000, 112);
  EXPECT_NEAR(changes, 1000, 112);
}

// The first epoch mirrors half of the images. Every later epoch mirrors exactly the images that the previous epoch did
// not mirror.
TEST(Augmentation, AUG_3_AlternatingFlip) {
  ImageSet images{Tensor::empty({2000, 1, 2, 3}, DType::u8), Tensor::zeros({2000}, DType::i64), {"only"}};
  for (std::int64_t k = 0; k < images.pixels.size(); ++k)
    images.pixels.data<std::uint8_t>()[k] = std::uint8_t(k % 6 / 3);
  const auto is_mirrored = [&](std::int64_t i, std::int64_t epoch) {
    return augmented({.flip = Flip::alternating}, images, i, 1, epoch)[0] == 1;
  };
  int first = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    first += is_mirrored(i, 0);
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) ASSERT_NE(is_mirrored(i, epoch), is_mirrored(i, epoch + 1));
  }
  EXPECT_NEAR(first, 1000, 112);
}

// The image has 3 rows of one pixel, and the holes are squares of side 2. A hole around row 0 hides row 0, around row 1
// rows 0 and 1, and around row 2 rows 1 and 2.
TEST(Augmentation, AUG_4_CutoutIsClippedAndEveryCentreIsAsLikely) {
  const ImageSet images = numbered(3, 1);
  std::map<std::string, int> times{{"0 2 3 ", 0}, {"0 0 3 ", 0}, {"1 0 0 ", 0}};
  for (std::int64_t epoch = 0; epoch < 900; ++epoch) ++times[reds(augmented({.cutout = 2}, images, 0, 1, epoch))];
  EXPECT_EQ(times.size(), 3u);
  for (const auto& [image, count] : times) EXPECT_NEAR(count, 300, 71) << image;  // five standard deviations of 14.1
}

// There are 81 crops, 1,024 holes, and mirroring. So two images, epochs or seeds hardly ever agree by chance.
TEST(Augmentation, ImagesAndEpochsAndSeedsDiffer) {
  ImageSet images = counting_images(2, 32, 32, 1);  // the next line makes both images equal
  std::copy_n(images.image(0), images.image_bytes(), images.pixels.data<std::uint8_t>() + images.image_bytes());
  const Augmentation a{.crop = 4, .flip = Flip::random, .cutout = 8};
  const Bytes image = augmented(a, images, 0, 1, 0);
  EXPECT_EQ(image, augmented(a, images, 0, 1, 0));
  EXPECT_NE(image, augmented(a, images, 1, 1, 0));
  EXPECT_NE(image, augmented(a, images, 0, 1, 1));
  EXPECT_NE(image, augmented(a, images, 0, 2, 0));
  EXPECT_EQ(augmented({}, images, 1, 1, 0), images.pixels.slice(1, 2).values<std::uint8_t>());
}

// Each of 600 epochs draws one of 15 operations and the sign of its magnitude. So every operation occurs about 20 times
// with each sign.
TEST(Augmentation, RandAugmentDrawsEveryOperationWithEitherSign) {
  const ImageSet images = counting_images(2, 8, 8, 1);
  const Augmentation a{.rand_augment = {.operations = 1, .magnitude = 7}, .fill = {1, 2, 3}};
  std::map<Bytes, int> times;
  for (std::int64_t epoch = 0; epoch < 600; ++epoch) ++times[augmented(a, images, 1, 1, epoch)];
  std::map<Bytes, int> expected;
  for (const PictureOp& op : kPictureOps)
    for (const double m : {0.7, -0.7}) {
      Bytes pixels = images.pixels.slice(1, 2).values<std::uint8_t>();
      op.apply({8, 8, {1, 2, 3}, pixels.data()}, m);
      expected[pixels] += 20;
    }
  ASSERT_GE(expected.size(), 20u);  // some operations ignore the sign, and some do not change this image
  EXPECT_EQ(times.size(), expected.size());
  // Each count is binomial, so its standard deviation is about sqrt(count). The bounds are five deviations.
  for (const auto& [pixels, count] : expected) EXPECT_NEAR(times[pixels], count, 5 * std::sqrt(count));
}

// A random number selects an operation by index. If the order of the operations changed, a resumed run would train on
// different images.
TEST(Augmentation, RandAugmentsOperationsKeepTheirOrder) {
  std::string names;
  for (const PictureOp& op : kPictureOps) names += op.name + std::string(" ");
  EXPECT_EQ(names,
            "identity autocontrast equalize invert posterize solarize rotate shear_x shear_y translate_x translate_y "
            "colour contrast brightness sharpness ");
}

// The hole covers the whole image, so if cutout comes after the operations, only the fill colour is left. The second
// operation draws its own random numbers, so two operations must differ from one in some epoch.
TEST(Augmentation, RandAugmentComesBeforeCutout) {
  const ImageSet images = counting_images(1, 8, 8, 1);
  const Augmentation cut{.rand_augment = {.operations = 3, .magnitude = 10}, .cutout = 16, .fill = {1, 2, 3}};
  const Augmentation two{.rand_augment = {.operations = 2, .magnitude = 9}};
  bool differ = false;
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    const Bytes out = augmented(cut, images, 0, 1, epoch), once = augmented(two, images, 0, 1, epoch);
    for (std::size_t k = 0; k < out.size(); ++k) ASSERT_EQ(out[k], 1 + k % 3);
    EXPECT_EQ(once, augmented(two, images, 0, 1, epoch));
    differ = differ || once != augmented({.rand_augment = {.operations = 1, .magnitude = 9}}, images, 0, 1, epoch);
  }
  EXPECT_TRUE(differ);
}

TEST(Augmentation, NamesOfConfigurations) {
  const Augmentation a = augmentation({"crop4", "flip_alternating", "cutout8"}), b = augmentation({"flip", "crop12"});
  EXPECT_EQ(a.crop, 4);
  EXPECT_EQ(a.flip, Flip::alternating);
  EXPECT_EQ(a.cutout, 8);
  EXPECT_EQ(b.crop, 12);
  EXPECT_EQ(b.flip, Flip::random);
  EXPECT_EQ(b.cutout, 0);
  EXPECT_EQ(augmentation({}).flip, Flip::never);
  EXPECT_EQ(a.rand_augment.operations, 0);
  const RandAugment least = augmentation({"randaugment1m0"}).rand_augment,
                    most = augmentation({"randaugment8m10"}).rand_augment;
  EXPECT_EQ(least.operations, 1);
  EXPECT_EQ(least.magnitude, 0);
  EXPECT_EQ(most.operations, 8);
  EXPECT_EQ(most.magnitude, 10);
  for (const char* name :
       {"crop", "crop0", "crop-1", "crop4x", "crop1001", "cutout", "flips", "", "randaugment", "randaugment2",
        "randaugment2m", "randaugment0m5", "randaugment9m5", "randaugment2m11", "randaugment2m-1", "randaugment2m5x"})
    EXPECT_EQ(
        message<std::invalid_argument>([&] { augmentation({name}); }),
        std::string(
            "augmentation: a name must be one of crop4 (or another number), flip, flip_alternating, randaugment2m9 (1 "
            "to 8 operations of magnitude 0 to 10), cutout8, got ") +
            '"' + name + '"');
  for (const auto& two : std::vector<std::vector<std::string>>{{"crop4", "crop2"},
                                                               {"flip", "flip_alternating"},
                                                               {"cutout8", "cutout8"},
                                                               {"randaugment2m9", "randaugment2m8"}})
    EXPECT_EQ(message<std::invalid_argument>([&] { augmentation(two); }),
              "augmentation: there must be at most one name of each kind, got a second one, \"" + two[1] + '"');
}

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

// Returns null if no operation has this name.
const PictureOp* operation(const std::string& name) {
  const auto found = std::ranges::find(kPictureOps, name, &PictureOp::name);
  return found == kPictureOps.end() ? nullptr : &*found;
}

// Pillow truncates the result of bilinear interpolation, but foldgrad rounds it, so values may differ by 1. All other
// operations must agree exactly.
TEST(Pillow, RND_1_RND_2_RND_3_RND_4_RND_5_DoesTheSame) {
  int compared = 0;
  for (const auto& [name, tensor] : golden().tensors) {
    std::istringstream words(name);
    std::string op;
    double m = 0;
    if (!(words >> op >> m) || !operation(op)) continue;
    Picture p = picture("small");
    const Bytes before = p.pixels;
    operation(op)->apply({p.height, p.width, {10, 200, 90}, p.pixels.data()}, m);
    const bool bilinear = op == "rotate" || op.starts_with("shear") || op.starts_with("translate");
    EXPECT_LE(largest_difference(p.pixels, tensor.values<std::uint8_t>()), bilinear ? 1 : 0) << name;
    EXPECT_GT(largest_difference(p.pixels, before), 4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 30);
}

// The step of [RND-2] does not count the pixels of the lightest gray, which are half of all: (4 - 2) 255 / 255 = 2.
TEST(Pillow, RND_2_EqualizesWithoutTheLastLevel) {
  Bytes pixels(4 * 255 * 3, 10);
  std::fill(pixels.begin() + 2 * 255 * 3, pixels.end(), 200);
  operation("equalize")->apply({4, 255, {0, 0, 0}, pixels.data()}, 0);
  EXPECT_EQ(pixels.front(), (2 / 2) / 2);
  EXPECT_EQ(pixels.back(), (2 / 2 + 2 * 255) / 2);
}

// Autocontrast cannot spread a single level. Equalize changes nothing if its step is 0, here 254 / 255 in integers,
// since 254 pixels are below the last level.
TEST(Pillow, RND_1_RND_2_LeaveWhatHasTooFewLevels) {
  Bytes pixels(255 * 3, 7);
  operation("autocontrast")->apply({1, 255, {0, 0, 0}, pixels.data()}, 0);
  EXPECT_EQ(pixels, Bytes(255 * 3, 7));
  std::fill_n(pixels.end() - 3, 3, 9);
  const Bytes before = pixels;
  operation("equalize")->apply({1, 255, {0, 0, 0}, pixels.data()}, 0);
  EXPECT_EQ(pixels, before);
}

// Pillow scales in one direction, rounds, and scales in the other. foldgrad rounds only at the end, so values may
// differ by 1.
TEST(Pillow, PIC_1_ScalesTheSame) {
  for (const std::int64_t size : {1, 7, 32, 41, 50}) {
    const Picture got = square(picture("large"), size), want = picture("square " + std::to_string(size));
    ASSERT_EQ(got.height, size);
    EXPECT_LE(largest_difference(got.pixels, want.pixels), 1) << size;
  }
}

}  // namespace
}  // namespace foldgrad::testing
