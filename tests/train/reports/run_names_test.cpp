#include <gtest/gtest.h>

#include <filesystem>

#include "tests/engine/error_message.h"
#include "train/reports/run_log.h"

namespace foldgrad::testing {
namespace {

using Names = std::vector<std::string>;

TEST(RunNames, AreTheFewestLastPartsThatTellApart) {
  EXPECT_EQ(distinct_names({"runs/un"}), Names{"un"});
  EXPECT_EQ(distinct_names({"a/un", "b/un/", "b/ln"}), (Names{"a/un", "b/un", "ln"}));
  EXPECT_EQ(distinct_names({"x/a/un", "y/a/un", "y/b/un"}), (Names{"x/a/un", "y/a/un", "b/un"}));
  EXPECT_EQ(distinct_names({"my-un", "un"}), (Names{"my-un", "un"}));  // parts, not letters
}

TEST(RunNames, OneThatAnotherEndsWithIsAWholePath) {
  EXPECT_EQ(distinct_names({"/un", "/b/un"}), (Names{"un", "b/un"}));
  EXPECT_EQ(distinct_names({"/a/un", "/b/a/un", "/b/un"}), (Names{"a/un", "b/a/un", "b/un"}));
}

TEST(RunNames, OfPlacesThatHaveNone) {
  const std::string here = std::filesystem::current_path().filename();
  EXPECT_EQ(distinct_names({"."}), Names{here});
  EXPECT_EQ(distinct_names({"a/../b/./un"}), Names{"un"});
  EXPECT_EQ(message<std::invalid_argument>([] { distinct_names({"/"}); }), "runs: / is no directory of a run");
}

TEST(RunNames, RefuseAPathThatComesTwice) {
  EXPECT_EQ(message<std::invalid_argument>([] {
              distinct_names({"a/un", "b", "./a//un/"});
            }),
            "runs: each must be given once, got ./a//un/ twice");
}

}  // namespace
}  // namespace foldgrad::testing
