#include "train/system/child_process.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace foldgrad {
namespace {

TEST(ChildProcess, TellsHowTheProgramEnded) {
  const auto result = [](std::vector<std::string> arguments) {
    const ChildResult r = run_child(std::move(arguments), /*quiet=*/true);
    return std::pair(r.error, r.status);
  };
  EXPECT_EQ(result({"true"}), std::pair(0, 0));
  EXPECT_EQ(result({"sh", "-c", "exit 3"}), std::pair(0, 3));
  EXPECT_EQ(result({"sh", "-c", "kill -TERM $$"}), std::pair(0, -1));
  EXPECT_EQ(result({"no-program-has-this-name"}), std::pair(ENOENT, -1));
  EXPECT_TRUE(run_child({"true"}, true).succeeded());
  EXPECT_FALSE(run_child({"false"}, true).succeeded());
}

}  // namespace
}  // namespace foldgrad
