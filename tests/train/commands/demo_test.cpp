// foldgrad demo. The test `readme` runs one to its end.
#include "tests/train/program.h"
#include "train/commands/commands.h"

namespace foldgrad::testing {
namespace {

TEST(DemoCommand, UsageErrors) {
  const ProgramResult norm = run_program("demo --norm unn"), steps = run_program("demo --steps 0");
  EXPECT_EQ(norm.exit_code, 2);
  const std::string message = "error: --norm: there is no normalizer \"unn\"; did you mean \"un\"? There are: affine, ";
  EXPECT_EQ(norm.err.substr(0, message.size()), message);
  EXPECT_EQ(steps.exit_code, 2);
}

TEST(DemoCommand, LeavesWhatIsThereAlone) {
  const TemporaryDirectory files;
  const ProgramResult demo = run_program("demo --device cpu --out " + files.path());
  EXPECT_EQ(demo.exit_code, 3);
  EXPECT_EQ(demo.err,
            "error: " + files.path() + ": is there already; remove it, or name another directory with --out\n");
  EXPECT_EQ(files.entries(), 0);
}

TEST(DemoCommand, HasTheConfigurationOfTheTree) {
  EXPECT_EQ(kDemoConfig, read_bytes(FOLDGRAD_SOURCE_DIR "/configs/numbers.toml"));
}

}  // namespace
}  // namespace foldgrad::testing
