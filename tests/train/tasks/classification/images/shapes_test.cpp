#include "train/tasks/classification/images/shapes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/cpu/threads.h"
#include "tests/engine/error_message.h"

namespace foldgrad::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::int64_t kBytes = shapes::kSide * shapes::kSide * kColours;

Bytes image(ImagePart part, std::int64_t i, std::uint64_t seed) {
  Bytes bytes(kBytes);
  shapes::draw(part, i, seed, bytes.data());
  return bytes;
}

TEST(Shapes, AnImageDependsOnItsIndexAlone) {
  const int before = threads();
  const ImageSet all = shapes::sample(ImagePart::train, 200, 5);
  check(all);
  set_threads(3);
  const ImageSet fewer = shapes::sample(ImagePart::train, 70, 5);
  set_threads(before);
  for (std::int64_t i = 199; i >= 0; --i) {
    const Bytes alone = image(ImagePart::train, i, 5);
    ASSERT_TRUE(std::equal(alone.begin(), alone.end(), all.image(i))) << i;
    ASSERT_TRUE(i >= 70 || std::equal(alone.begin(), alone.end(), fewer.image(i))) << i;
    ASSERT_EQ(all.label(i), i % 10);
  }
  EXPECT_EQ(all.classes, (std::vector<std::string>{"disc", "ring", "square", "frame", "triangle", "cross", "star",
                                                   "bars", "L", "crescent"}));
}

TEST(Shapes, PartsSeedsAndImagesDiffer) {
  const Bytes one = image(ImagePart::train, 0, 1);
  EXPECT_NE(one, image(ImagePart::train, 10, 1));
  EXPECT_NE(one, image(ImagePart::test, 0, 1));
  EXPECT_NE(one, image(ImagePart::train, 0, 2));
}

// If the random numbers of adjacent images began alike, the images would have the same colours and the same noise, and
// would differ only in their shapes.
TEST(Shapes, NeighboursDifferInMoreThanTheirShape) {
  for (std::int64_t i = 0; i < 20; ++i) {
    const Bytes a = image(ImagePart::train, i, 1), b = image(ImagePart::train, i + 1, 1);
    std::int64_t same = 0;
    for (std::int64_t k = 0; k < kBytes; ++k) same += a[k] == b[k];
    EXPECT_LT(same, kBytes / 2);  // 1 in 256 agrees by chance, more if both are black or white
  }
}

// The test compares six features: the three channels of the corner pixel, which is background or a stripe, and the
// differences between an image's three mean channels. Colours must not depend on the class. So each class's mean over
// its 1,000 images must be within 5 estimated standard deviations of the mean over all classes. With 10 * 6
// comparisons, the test fails for 1 seed in 30,000.
TEST(Shapes, NoColourTellsTheClass) {
  const std::int64_t per_class = 1000;
  const ImageSet images = shapes::sample(ImagePart::train, 10 * per_class, 3);
  constexpr int kFeatures = 2 * kColours;
  double sum[10][kFeatures] = {}, all[kFeatures] = {}, squares[kFeatures] = {};
  for (std::int64_t i = 0; i < images.size(); ++i) {
    double mean[kColours] = {};
    for (std::int64_t k = 0; k < kBytes; ++k) mean[k % kColours] += double(images.image(i)[k]) / (kBytes / kColours);
    for (int f = 0; f < kFeatures; ++f) {
      const double value = f < kColours ? images.image(i)[f] : mean[f - kColours] - mean[(f + 1) % kColours];
      sum[images.label(i)][f] += value;
      all[f] += value;
      squares[f] += value * value;
    }
  }
  const double n = double(images.size());
  for (int f = 0; f < kFeatures; ++f) {
    const double mean = all[f] / n, deviation = std::sqrt(squares[f] / n - mean * mean);
    EXPECT_GT(deviation, 10);  // colours differ between images
    for (const auto& of_class : sum)
      EXPECT_NEAR(of_class[f] / per_class, mean, 5 * deviation / std::sqrt(double(per_class))) << f;
  }
}

// A shape must not exceed its circle, since the edge of the image might cut it off, and must not be much smaller.
TEST(Shapes, EveryOutlineFillsACircleOfRadiusOne) {
  for (std::int64_t shape = 0; shape < shapes::kClasses; ++shape) {
    float farthest = 0;
    for (int row = -150; row <= 150; ++row)
      for (int column = -150; column <= 150; ++column) {
        const float x = float(column) / 100, y = float(row) / 100;
        if (shapes::distance(shape, x, y) < 0) farthest = std::max(farthest, std::hypot(x, y));
      }
    EXPECT_LE(farthest, 1.03) << shapes::classes()[shape];
    EXPECT_GE(farthest, 0.9) << shapes::classes()[shape];
  }
}

TEST(Shapes, DistancesByHand) {
  const auto of = [](const char* name, float x, float y) {
    const auto found = std::ranges::find(shapes::classes(), name);
    return shapes::distance(found - shapes::classes().begin(), x, y);
  };
  EXPECT_FLOAT_EQ(of("disc", 0.3f, 0.4f), -0.45f);
  EXPECT_FLOAT_EQ(of("ring", 0, 0), 0.53f);
  EXPECT_FLOAT_EQ(of("ring", 0, -0.75f), -0.22f);
  EXPECT_FLOAT_EQ(of("square", -0.5f, 0.1f), -0.22f);
  EXPECT_FLOAT_EQ(of("frame", 0, 0), 0.38f);
  EXPECT_FLOAT_EQ(of("frame", 0.1f, -0.55f), -0.17f);
  EXPECT_FLOAT_EQ(of("triangle", 0, 0), -0.5f);
  EXPECT_NEAR(of("triangle", 0, -1), 0, 1e-6);  // its tip
  EXPECT_FLOAT_EQ(of("cross", 0.7f, 0), -0.25f);
  EXPECT_FLOAT_EQ(of("cross", 0.7f, 0.7f), 0.43f);
  EXPECT_NEAR(of("star", 0, 1), 0, 1e-6);           // a tip
  EXPECT_NEAR(of("star", 0, -0.381966f), 0, 1e-6);  // an inner corner, where two lines cross
  EXPECT_FLOAT_EQ(of("bars", 0.1f, 0), 0.22f);
  EXPECT_FLOAT_EQ(of("bars", 0.1f, 0.42f), -0.2f);
  EXPECT_FLOAT_EQ(of("L", -0.38f, -0.3f), -0.22f);
  EXPECT_FLOAT_EQ(of("L", 0.3f, 0), 0.36f);
  EXPECT_FLOAT_EQ(of("crescent", -0.6f, 0), -0.3f);
  EXPECT_FLOAT_EQ(of("crescent", 0.45f, 0), 0.75f);
}

TEST(Shapes, OtherCountsAreRefused) {
  for (const std::int64_t count : {0, 10'000'001})
    EXPECT_EQ(message<std::invalid_argument>([&] { shapes::sample(ImagePart::train, count); }),
              "shapes: a sample must have 1 to 10000000 images, got " + std::to_string(count));
}

}  // namespace
}  // namespace foldgrad::testing
