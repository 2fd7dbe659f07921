#include "train/data/fetch.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"
#include "train/system/digest.h"

namespace foldgrad::testing {
namespace {

// An archive as the published ones are: a folder with records and other files.
class FetchImages : public ::testing::Test {
 protected:
  FetchImages() {
    std::filesystem::create_directory(files_ / "pictures");
    write_bytes(files_ / "pictures/train.bin", "twelve");
    write_bytes(files_ / "pictures/test.bin", "three");
    write_bytes(files_ / "pictures/readme.html", "see there");
    pack();
  }
  void pack() {
    ASSERT_EQ(std::system(("tar -C " + files_.path() + " -czf " + archive_ + " pictures").c_str()), 0);
    set_.archives = {{{}, sha256(read_bytes(archive_)), "pictures.tar.gz"}};
  }
  std::string error(const std::vector<std::string>& files) {
    return message<FileError>([&] { fetch_images(set_, files, root_); });
  }
  bool there(const std::string& file) { return std::filesystem::exists(root_ + "/" + file); }

  TemporaryDirectory files_;
  const std::string archive_ = files_ / "mine.tar.gz", root_ = files_ / "root/pictures";
  DataSet set_{.name = "small",
               .about = "",
               .directory = "pictures",
               .archives = {},
               .digests = {{"train.bin", sha256("twelve")}, {"test.bin", sha256("three")}}};
};

TEST_F(FetchImages, PutsWhatTheArchiveHoldsInPlace) {
  fetch_images(set_, {archive_}, root_);
  EXPECT_EQ(read_bytes(root_ + "/train.bin"), "twelve");
  EXPECT_EQ(read_bytes(root_ + "/test.bin"), "three");
  EXPECT_EQ(read_bytes(root_ + "/readme.html"), "see there");
  EXPECT_FALSE(there("unpacked"));
  // They are not asked for again, nor is the archive.
  std::filesystem::remove_all(root_ + "/archives");
  fetch_images(set_, {}, root_);
  EXPECT_FALSE(there("archives"));
  // What is missing comes from the archive, which stays.
  std::filesystem::remove(root_ + "/test.bin");
  fetch_images(set_, {archive_}, root_);
  std::filesystem::remove(root_ + "/train.bin");
  fetch_images(set_, {}, root_);
  EXPECT_EQ(read_bytes(root_ + "/test.bin"), "three");
  EXPECT_EQ(read_bytes(root_ + "/train.bin"), "twelve");
}

TEST_F(FetchImages, FilesInTheArchiveAreComparedBeforeAnyIsPutInPlace) {
  write_bytes(files_ / "pictures/train.bin", "dozen!");
  pack();
  EXPECT_EQ(error({archive_}), root_ + "/unpacked/pictures/train.bin: must have SHA-256 " + sha256("twelve") +
                                   ", got " + sha256("dozen!"));
  for (const char* file : {"unpacked", "train.bin", "test.bin", "readme.html"}) EXPECT_FALSE(there(file)) << file;
  std::filesystem::remove(files_ / "pictures/train.bin");
  pack();
  EXPECT_EQ(error({archive_}), root_ + "/unpacked/pictures/train.bin: cannot be opened: No such file or directory");
}

TEST_F(FetchImages, AnArchiveThatTarRefusesLeavesNothing) {
  write_bytes(archive_, "no archive");
  set_.archives[0].sha256 = sha256("no archive");
  EXPECT_EQ(error({archive_}), root_ + "/archives/pictures.tar.gz: cannot be unpacked by tar");
  EXPECT_FALSE(there("unpacked"));
}

TEST_F(FetchImages, AnotherFileInTheirPlaceStays) {
  fetch_images(set_, {archive_}, root_);
  write_bytes(root_ + "/test.bin", "mine");
  EXPECT_EQ(error({archive_}),
            root_ + "/test.bin: is there already, and is not that of small: remove it, or name another --data-dir");
  EXPECT_EQ(read_bytes(root_ + "/test.bin"), "mine");
}

}  // namespace
}  // namespace foldgrad::testing
