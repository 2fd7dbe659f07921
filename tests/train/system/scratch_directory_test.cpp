#include "train/system/scratch_directory.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "engine/files/file.h"
#include "tests/engine/error_message.h"
#include "tests/engine/files/temporary_directory.h"

namespace foldgrad::testing {
namespace {

class TmpDir : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("TMPDIR"); }
  void set(const std::string& path) { setenv("TMPDIR", path.c_str(), 1); }
  const TemporaryDirectory files_;
};

TEST_F(TmpDir, HoldsTheFilesAsLongAsTheyAreNeeded) {
  set(files_.path());
  std::string file;
  {
    const ScratchDirectory scratch;
    file = scratch / "file";
    write_bytes(file, "text");
    EXPECT_TRUE(file.starts_with(files_.path() + "/foldgrad-")) << file;
  }
  EXPECT_TRUE(std::filesystem::is_empty(files_.path())) << file;
}

TEST_F(TmpDir, ThatIsNotThereIsNamed) {
  const std::string nowhere = files_ / "nowhere";
  set(nowhere);
  const std::string refusal = message<FileError>([] { const ScratchDirectory scratch; });
  EXPECT_TRUE(refusal.starts_with(nowhere + "/foldgrad-")) << refusal;
  EXPECT_TRUE(refusal.ends_with(": the temporary directory ($TMPDIR) cannot be created: No such file or directory"))
      << refusal;
}

}  // namespace
}  // namespace foldgrad::testing
