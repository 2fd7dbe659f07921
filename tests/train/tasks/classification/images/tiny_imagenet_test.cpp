// Tests TinyImageNet's layout with two classes of images from tests/golden/pictures.
#include <cmath>

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "train/tasks/classification/images/folder.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad::testing {
namespace {

class TinyImageNet : public FileTest {
 protected:
  void SetUp() override {
    if (!jpeg_available()) GTEST_SKIP() << "this build lacks libjpeg-turbo";
    put("train/n02/images/n02_0.JPEG", "colours");
    put("train/n02/images/n02_1.JPEG", "gray");
    put("train/n01/images/n01_0.JPEG", "progressive");
    write("train/n01/n01_boxes.txt", "n01_0.JPEG\t0\t0\t7\t7\n");
    put("val/images/val_0.JPEG", "gray");
    put("val/images/val_1.JPEG", "colours");
    write("val/val_annotations.txt", kAnnotations);
  }
  void put(const std::string& name, const std::string& picture) {
    write(name, read_bytes(FOLDGRAD_SOURCE_DIR "/tests/golden/pictures/" + picture + ".jpg"));
  }
  ImageSet read(ImagePart part, const std::vector<std::string>& classes = {}) {
    return read_folder(files_.path(), part, 8, classes, FolderLayout::tiny_imagenet);
  }
  std::string val_error() {
    return error_of<FileError>([&] { read(ImagePart::test, {"n01", "n02"}); });
  }

  static constexpr const char* kAnnotations = "val_0.JPEG\tn02\t0\t32\t44\t62\nval_1.JPEG\tn01\t1\t1\t2\t2\n";
};

// Checks the first and the last pixel of an image. The picture is 8 pixels high and 16 wide, with one colour in each
// half. The image is its centre crop, so it has the same colours in its halves. JPEG compression changes a value by at
// most 2.
void expect_first_and_last(const ImageSet& set, std::int64_t i, const std::vector<int>& first,
                           const std::vector<int>& last) {
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(set.image(i)[c], first[c], 2) << i;
    EXPECT_NEAR(set.image(i)[set.image_bytes() - 3 + std::int64_t(c)], last[c], 2) << i;
  }
}

TEST_F(TinyImageNet, ImagesHaveTheClassesOfTheirFoldersAndOfTheAnnotations) {
  const ImageSet train = read(ImagePart::train);
  EXPECT_EQ(train.classes, (std::vector<std::string>{"n01", "n02"}));
  EXPECT_EQ(train.labels.values<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 1}));
  expect_first_and_last(train, 1, {200, 40, 90}, {10, 160, 250});
  expect_first_and_last(train, 2, {30, 30, 30}, {220, 220, 220});  // gray
  const ImageSet val = read(ImagePart::test, train.classes);
  EXPECT_EQ(val.labels.values<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
  expect_first_and_last(val, 0, {30, 30, 30}, {220, 220, 220});
  EXPECT_TRUE(exists("train-8.images") && exists("val-8.images"));
  write("val/val_annotations.txt", "val_0.JPEG\tn01\nval_1.JPEG\tn01\n");  // the cache still has the old labels
  EXPECT_EQ(read(ImagePart::test, train.classes).labels.values<std::int64_t>(), (std::vector<std::int64_t>{0, 0}));
}

TEST_F(TinyImageNet, CountsWithoutDecoding) {
  write("val/images/val_0.JPEG", "no picture");
  const FolderCounts counts = count_folder(files_.path(), ImagePart::test, FolderLayout::tiny_imagenet);
  EXPECT_EQ(counts.classes, (std::vector<std::string>{"n01", "n02"}));
  EXPECT_EQ(counts.images, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(counts.left_out, "");
}

TEST_F(TinyImageNet, ErrorsNameFileAndLine) {
  const auto with = [&](const std::string& annotations) {
    write("val/val_annotations.txt", annotations);
    return val_error();
  };
  EXPECT_EQ(with("val_0.JPEG\tn02\nval_1.JPEG\tn03\n"),
            "@val/val_annotations.txt: line 2 has a class \"n03\" without training images");
  EXPECT_EQ(with("val_0.JPEG n02\n"),
            "@val/val_annotations.txt: line 1 must be a name, a tab, and a class, got \"val_0.JPEG n02\"");
  EXPECT_EQ(with("val_0.JPEG\tn02\n"), "@val/images/val_1.JPEG: has no line in val_annotations.txt");
  EXPECT_EQ(with(std::string(kAnnotations) + "val_2.JPEG\tn01\n"),
            "@val/val_annotations.txt: has lines for 3 images, but val/images has 2");
  std::filesystem::remove(files_ / "val/val_annotations.txt");
  EXPECT_EQ(val_error(),
            "@val/val_annotations.txt: does not exist; it must have a line for each image in val: its name, a tab, and "
            "its class");
  EXPECT_FALSE(exists("val-8.images"));
  std::filesystem::remove_all(files_ / "train/n01/images");
  EXPECT_EQ(error_of<FileError>([&] { read(ImagePart::train); }),
            "@train/n01/images: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace foldgrad::testing
