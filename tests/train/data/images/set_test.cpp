#include "train/data/images/set.h"

#include <gtest/gtest.h>

#include "tests/engine/error_message.h"
#include "tests/train/data/images/counting_images.h"

namespace foldgrad::testing {
namespace {

TEST(ImageSet, StatisticsByHand) {
  // Two pixels: red 0 and 255, green 51 twice, blue 51 and 153.
  const ImageSet images{
      Tensor::of<std::uint8_t>({1, 1, 2, 3}, {0, 51, 51, 255, 51, 153}), Tensor::of<std::int64_t>({1}, {0}), {"only"}};
  check(images);
  const ImageStatistics s = image_statistics(images);
  EXPECT_EQ(s.mean, (std::array<double, 3>{0.5, 0.2, 0.4}));
  EXPECT_DOUBLE_EQ(s.std[0], 0.5);
  EXPECT_EQ(s.std[1], 0);
  EXPECT_DOUBLE_EQ(s.std[2], 0.2);
}

TEST(ImageSet, ErrorsNameWhatIsWrong) {
  ImageSet images = counting_images(4, 2, 3, 3);
  check(images);
  const auto error = [&] { return message<std::invalid_argument>([&] { check(images); }); };
  images.labels.data<std::int64_t>()[2] = 3;
  EXPECT_EQ(error(), "images: the label of image 2 must be in [0, 3), got 3");
  images.labels.data<std::int64_t>()[2] = -1;
  EXPECT_EQ(error(), "images: the label of image 2 must be in [0, 3), got -1");
  images.labels = Tensor::zeros({3}, DType::i64);
  EXPECT_EQ(error(), "images: labels must be i64 [4] on cpu, got i64 [3] on cpu");
  images.labels = Tensor::zeros({4}, DType::i32);
  EXPECT_EQ(error(), "images: labels must be i64 [4] on cpu, got i32 [4] on cpu");
  const std::string rule = "images: pixels must be u8 [N, H, W, 3] on cpu, none of them 0, got ";
  images.pixels = Tensor::zeros({4, 2, 3, 4}, DType::u8);
  EXPECT_EQ(error(), rule + "u8 [4, 2, 3, 4] on cpu");
  images.pixels = Tensor::zeros({4, 6, 3}, DType::u8);
  EXPECT_EQ(error(), rule + "u8 [4, 6, 3] on cpu");
  images.pixels = Tensor::zeros({4, 2, 3, 3}, DType::f32);
  EXPECT_EQ(error(), rule + "f32 [4, 2, 3, 3] on cpu");
  images.pixels = Tensor::zeros({0, 2, 3, 3}, DType::u8);
  EXPECT_EQ(error(), rule + "u8 [0, 2, 3, 3] on cpu");
}

}  // namespace
}  // namespace foldgrad::testing
