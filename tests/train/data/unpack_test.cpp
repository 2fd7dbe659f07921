#include <gtest/gtest.h>

#include "engine/files/file.h"
#include "tests/engine/files/temporary_directory.h"
#include "train/data/download.h"

namespace foldgrad::testing {
namespace {

TEST(Unpack, WritesWhatIsInTheArchive) {
  const TemporaryDirectory files;
  const std::string archive = files / "it's an archive.tar.gz";
  write_bytes(files / "train.de", "eins\n");
  ASSERT_EQ(std::system(("tar -C " + files.path() + " -czf \"" + archive + "\" train.de").c_str()), 0);
  unpack(archive, files / "a/b");
  EXPECT_EQ(read_bytes(files / "a/b/train.de"), "eins\n");
}

TEST(Unpack, NamesTheArchiveThatIsNone) {
  const TemporaryDirectory files;
  write_bytes(files / "bad", "no archive");
  const auto error = [&](const std::string& archive) {
    try {
      unpack(archive, files / "to");
    } catch (const FileError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error(files / "bad"), files / "bad" + ": cannot be unpacked by tar");
  EXPECT_EQ(error(files / "absent"), files / "absent" + ": cannot be unpacked by tar");
}

}  // namespace
}  // namespace foldgrad::testing
