// Tests image sets, and CIFAR's files.
#include "train/tasks/classification/images/cifar.h"

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "tests/train/tasks/classification/images/counting_images.h"
#include "train/tasks/classification/images/set.h"

namespace foldgrad::testing {
namespace {

TEST(ImageSet, StatisticsByHand) {
  // The image has two pixels: red is 0 and 255, green is 51 twice, and blue is 51 and 153.
  const ImageSet images{
      Tensor::of<std::uint8_t>({1, 1, 2, 3}, {0, 51, 51, 255, 51, 153}), Tensor::of<std::int64_t>({1}, {0}), {"only"}};
  check(images);
  const ImageStatistics s = image_statistics(images);
  EXPECT_EQ(s.mean, (std::array<double, 3>{0.5, 0.2, 0.4}));
  EXPECT_DOUBLE_EQ(s.std[0], 0.5);
  EXPECT_EQ(s.std[1], 0);
  EXPECT_DOUBLE_EQ(s.std[2], 0.2);
  // Here the sums of the squares exceed 32 bits.
  std::vector<std::uint8_t> half_white(400 * 400 * 3);
  std::fill_n(half_white.begin(), half_white.size() / 2, 255);
  const ImageSet large{Tensor::of<std::uint8_t>({1, 400, 400, 3}, half_white), images.labels, images.classes};
  EXPECT_EQ(image_statistics(large).std, (std::array<double, 3>{0.5, 0.5, 0.5}));
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
  const std::string rule = "images: pixels must be u8 [N, H, W, 3] on cpu with positive sizes, got ";
  images.pixels = Tensor::zeros({4, 2, 3, 4}, DType::u8);
  EXPECT_EQ(error(), rule + "u8 [4, 2, 3, 4] on cpu");
  images.pixels = Tensor::zeros({4, 6, 3}, DType::u8);
  EXPECT_EQ(error(), rule + "u8 [4, 6, 3] on cpu");
  images.pixels = Tensor::zeros({4, 2, 3, 3}, DType::f32);
  EXPECT_EQ(error(), rule + "f32 [4, 2, 3, 3] on cpu");
  images.pixels = Tensor::zeros({0, 2, 3, 3}, DType::u8);
  EXPECT_EQ(error(), rule + "u8 [0, 2, 3, 3] on cpu");
}

constexpr std::int64_t kPlane = 32 * 32;

// Returns `labels` and three planes. Each plane has a single value, except that the green of pixel (1, 2) is `marked`.
std::string record(const std::string& labels, char red, char green, char blue, char marked) {
  std::string planes = std::string(kPlane, red) + std::string(kPlane, green) + std::string(kPlane, blue);
  planes[kPlane + 1 * 32 + 2] = marked;
  return labels + planes;
}

class CifarTest : public FileTest {
 protected:
  // Writes the six files of CIFAR-10, each with one image. The labels are 0 to 5.
  void write_tiny() {
    for (char file = 0; file < 5; ++file)
      write("data_batch_" + std::to_string(file + 1) + ".bin", record({file}, char(10 + file), 20, char(200), 99));
    write("test_batch.bin", record({5}, 1, 2, 3, 4));
    write("batches.meta.txt", "a\nb\nc\nd\ne\nf\n\n");
  }
  ImageSet read(ImagePart part) { return read_cifar(files_.path(), cifar10_layout(), part); }
  std::string error() {
    return error_of<FileError>([&] { read(ImagePart::train); });
  }
};

TEST_F(CifarTest, ReadsPlanesChannelsLast) {
  write_tiny();
  const ImageSet train = read(ImagePart::train), test = read(ImagePart::test);
  check(train);
  EXPECT_EQ(train.pixels.shape(), Shape({5, 32, 32, 3}));
  EXPECT_EQ(train.labels.values<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(train.classes, (std::vector<std::string>{"a", "b", "c", "d", "e", "f"}));
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t p = 0; p < kPlane; ++p) {
      const std::uint8_t* pixel = train.image(i) + p * 3;
      ASSERT_EQ(pixel[0], 10 + i);
      ASSERT_EQ(pixel[1], p == 34 ? 99 : 20) << p;
      ASSERT_EQ(pixel[2], 200);
    }
  EXPECT_EQ(test.size(), 1);
  EXPECT_EQ(test.label(0), 5);
  EXPECT_EQ(test.image(0)[34 * 3 + 1], 4);
}

TEST_F(CifarTest, ReadsTheFineLabelOfCifar100) {
  write("train.bin", record({1, 2}, 5, 6, 7, 8) + record({0, 1}, 9, 6, 7, 8));
  EXPECT_EQ(error_of<FileError>([&] { read_cifar(files_.path(), cifar100_layout(), ImagePart::train); }),
            "@fine_label_names.txt: cannot be opened: No such file or directory");
  write("fine_label_names.txt", "apple\r\naquarium_fish\r\nbaby\r\n");
  const ImageSet images = read_cifar(files_.path(), cifar100_layout(), ImagePart::train);
  EXPECT_EQ(images.labels.values<std::int64_t>(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(images.classes, (std::vector<std::string>{"apple", "aquarium_fish", "baby"}));
  EXPECT_EQ(images.image(1)[0], 9);
  EXPECT_EQ(images.image(0)[34 * 3 + 1], 8);
}

TEST_F(CifarTest, KnowsTheClassesOfCifar10WithoutTheirFile) {
  write_tiny();
  EXPECT_EQ(cifar_files(files_.path(), cifar10_layout(), ImagePart::test),
            (std::vector<std::string>{files_ / "test_batch.bin", files_ / "batches.meta.txt"}));
  std::filesystem::remove(files_ / "batches.meta.txt");
  const ImageSet test = read(ImagePart::test);
  EXPECT_EQ(test.classes.size(), 10u);
  EXPECT_EQ(test.classes[5], "dog");
  EXPECT_EQ(cifar_files(files_.path(), cifar10_layout(), ImagePart::train).size(), 5u);
}

TEST_F(CifarTest, ErrorsNameFileRecordAndByte) {
  const std::string third = "data_batch_3.bin", good = record({2}, 1, 2, 3, 4);
  write_tiny();
  write(third, good + good.substr(0, 100));
  EXPECT_EQ(error(),
            "@data_batch_3.bin: must consist of records of 3073 bytes, got 3173 bytes: record 1, which begins at byte "
            "3073, has "
            "100");
  write(third, good + record({6}, 1, 2, 3, 4));
  EXPECT_EQ(error(), "@data_batch_3.bin: record 1, byte 3073: a label must be below 6, got 6");
  write(third, "");
  EXPECT_EQ(error(), "@data_batch_3.bin: must have at least one record, got an empty file");
  std::filesystem::remove(files_ / third);
  EXPECT_EQ(error(), "@data_batch_3.bin: cannot be opened: No such file or directory");
  write(third, good);
  write("batches.meta.txt", "\n");
  EXPECT_EQ(error(), "@batches.meta.txt: must have at least one class name, got none");
  write("batches.meta.txt", "a\n\xff\n");
  EXPECT_EQ(error(), "@batches.meta.txt: line 2 must be UTF-8, got byte 0xff at byte 1 of the line");
}

TEST_F(CifarTest, WhatTheLayoutCannotHoldIsRefused) {
  const ImageSet good = counting_images(5, 32, 32, 7);
  const auto error_of = [&](const ImageSet& train, const ImageSet& test) {
    return message<std::invalid_argument>([&] { write_cifar10(files_ / "new", train, test); });
  };
  EXPECT_EQ(error_of(counting_images(5, 32, 30, 7), good),
            "the layout of CIFAR-10: images must be 32 x 32 with at most 256 classes, got 32 x 30 with 7 classes");
  EXPECT_EQ(error_of(good, counting_images(5, 32, 32, 257)),
            "the layout of CIFAR-10: images must be 32 x 32 with at most 256 classes, got 32 x 32 with 257 classes");
  EXPECT_EQ(error_of(counting_images(4, 32, 32, 7), good),
            "the layout of CIFAR-10: there must be at least 5 training images, got 4");
  EXPECT_EQ(error_of(good, counting_images(5, 32, 32, 8)),
            "the layout of CIFAR-10: both parts must have the same classes");
  EXPECT_FALSE(std::filesystem::exists(files_ / "new"));
}

}  // namespace
}  // namespace foldgrad::testing
