#include "train/tasks/classification/images/folder.h"

#include "engine/files/file.h"
#include "tests/harness/file_test.h"
#include "tests/train/tasks/classification/images/png_file.h"
#include "train/tasks/classification/images/picture.h"

namespace foldgrad::testing {
namespace {

namespace fs = std::filesystem;

std::string gray(char value) { return png_file(2, 2, 8, PngColour::gray, std::string(4, value)); }

class FolderTest : public FileTest {
 protected:
  void SetUp() override {
    if (!png_available()) GTEST_SKIP() << "this build lacks libpng";
    write("train/eel/b.PNG", gray(11));
    write("train/eel/a.png", gray(10));
    write("train/cat/z.png", gray(20));
    write("train/cat/notes.txt", "no picture");
    write("train/cat/.hidden.png", "no picture");
    write("train/readme", "no class");
    write("test/eel/c.png", gray(30));
  }
  ImageSet read(ImagePart part = ImagePart::train, const std::vector<std::string>& classes = {}) {
    return read_folder(files_.path(), part, 2, classes);
  }
  std::vector<int> grays(const ImageSet& set) {
    std::vector<int> all;
    for (std::int64_t i = 0; i < set.size(); ++i) all.push_back(set.image(i)[0]);
    return all;
  }
  std::string error(ImagePart part = ImagePart::train, const std::vector<std::string>& classes = {}) {
    return error_of<FileError>([&] { read(part, classes); });
  }
  std::string cache() { return files_ / "train-2.images"; }
};

TEST_F(FolderTest, ClassesAndImagesComeInTheOrderOfTheirNames) {
  const ImageSet train = read();
  check(train);
  EXPECT_EQ(train.classes, (std::vector<std::string>{"cat", "eel"}));
  EXPECT_EQ(train.labels.values<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_EQ(grays(train), (std::vector<int>{20, 10, 11}));
  EXPECT_EQ(train.pixels.shape(), Shape({3, 2, 2, 3}));
  // Labels of test images follow the training classes, so eel is class 1 although the test set has no cat.
  const ImageSet test = read(ImagePart::test, train.classes);
  EXPECT_EQ(test.classes, train.classes);
  EXPECT_EQ(test.labels.values<std::int64_t>(), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(read_folder(files_.path(), ImagePart::train, 5).pixels.shape(), Shape({3, 5, 5, 3}));
}

TEST_F(FolderTest, SaysOnceHowManyFilesAreLeftOut) {
  write("train/eel/c.webp", "no picture");
  write("train/eel/inner/d.png", gray(12));
  write("train/eel/inner/deeper/e.png", gray(13));
  const std::string left_out =
      "3 not PNG or JPEG (readme, ...), 2 in folders within a class (eel/inner/d.png, "
      "...), 1 hidden (cat/.hidden.png)";
  const auto said = [&](ImagePart part) {
    ::testing::internal::CaptureStderr();
    read(part);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(ImagePart::train), "note: " + files_ / "train" + ": files left out: " + left_out + "\n");
  EXPECT_EQ(said(ImagePart::train), "");
  EXPECT_EQ(said(ImagePart::test), "");
  const FolderCounts counts = count_folder(files_.path(), ImagePart::train);
  EXPECT_EQ(counts.classes, (std::vector<std::string>{"cat", "eel"}));
  EXPECT_EQ(counts.images, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(counts.left_out, left_out);
}

TEST_F(FolderTest, ImagesAreDecodedAgainOnlyWhenTheyChange) {
  const ImageSet first = read();
  ASSERT_TRUE(fs::exists(cache()));
  const std::string path = files_ / "train/eel/a.png", same_size = gray(77);
  const auto when = fs::last_write_time(path);
  write_bytes(path, same_size);  // must not be detected, since neither size nor time changes
  fs::last_write_time(path, when);
  EXPECT_EQ(grays(read()), grays(first));
  EXPECT_EQ(digest_of(read()), digest_of(first));
  fs::last_write_time(path, when + std::chrono::seconds(1));
  EXPECT_EQ(grays(read()), (std::vector<int>{20, 77, 11}));
  EXPECT_NE(digest_of(read()), digest_of(first));
  fs::rename(path, files_ / "train/eel/x.png");
  EXPECT_EQ(grays(read()), (std::vector<int>{20, 11, 77}));
  write("train/cat/y.png", gray(19));
  EXPECT_EQ(grays(read()), (std::vector<int>{19, 20, 11, 77}));
  fs::rename(files_ / "train/cat", files_ / "train/gnu");
  EXPECT_EQ(read().classes, (std::vector<std::string>{"eel", "gnu"}));
  EXPECT_EQ(grays(read()), (std::vector<int>{11, 77, 19, 20}));
}

// A cache must not be used if its end is missing or if one of its bits has changed.
TEST_F(FolderTest, ADamagedCacheIsMadeAnew) {
  const std::string want = digest_of(read()), good = read_bytes(cache());
  for (const std::string& bad : {std::string("none"), good.substr(0, good.size() - 1), std::string()}) {
    write_bytes(cache(), bad);
    EXPECT_EQ(digest_of(read()), want);
    EXPECT_EQ(read_bytes(cache()), good);
  }
  for (const std::size_t from_end : {1, 40}) {
    std::string bad = good;
    bad[bad.size() - from_end] ^= 1;
    write_bytes(cache(), bad);
    EXPECT_EQ(digest_of(read()), want) << from_end;
    EXPECT_EQ(read_bytes(cache()), good);
  }
}

TEST_F(FolderTest, ACacheThatCannotBeWrittenIsNoError) {
  fs::create_directories(cache() + "/in the way");
  EXPECT_EQ(grays(read()), (std::vector<int>{20, 10, 11}));
}

TEST_F(FolderTest, ErrorsNameTheFirstFileAndLeaveNoCache) {
  write("train/eel/a.png", gray(10).substr(0, 60));
  write("train/eel/b.PNG", "GIF89a");
  for (int times = 0; times < 5; ++times) EXPECT_TRUE(begins(error(), "@train/eel/a.png: PNG: "));
  write("train/eel/a.png", gray(10));
  EXPECT_EQ(error(), "@train/eel/b.PNG: must be a PNG or JPEG file");
  EXPECT_FALSE(fs::exists(cache()));
  EXPECT_EQ(error(ImagePart::test, {"cat", "dog"}), "@test: has a class \"eel\" without training images");
  fs::create_directory(files_ / "train/dog");
  EXPECT_EQ(error(), "@train/dog: has no PNG or JPEG file");
  fs::create_directory(files_ / "train/\xff");
  EXPECT_EQ(error(), "@train/dog: has no PNG or JPEG file");
  fs::remove(files_ / "train/dog");
  EXPECT_EQ(error(), "@train/\xff: must have a UTF-8 name");
  fs::remove_all(files_ / "test/eel");
  EXPECT_EQ(error(ImagePart::test), "@test: has no class folder");
  fs::remove_all(files_ / "test");
  EXPECT_EQ(error(ImagePart::test), "@test: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace foldgrad::testing
