#include "train/data/data_root.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace foldgrad::testing {
namespace {

TEST(DataRoot, FlagThenVariablesThenHome) {
  const auto set = [](const char* name, const char* value) { ASSERT_EQ(setenv(name, value, 1), 0); };
  set("HOME", "/home/a");
  set("FOLDGRAD_DATA", "");
  set("XDG_CACHE_HOME", "");
  EXPECT_EQ(data_root(""), "/home/a/.cache/foldgrad");
  set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(data_root(""), "/cache/foldgrad");
  set("FOLDGRAD_DATA", "/data");
  EXPECT_EQ(data_root(""), "/data");
  EXPECT_EQ(data_root("/flag"), "/flag");
  EXPECT_EQ(data_directory("", "/flag"), "/flag");
  EXPECT_EQ(data_directory("multi30k", "/flag"), "/flag/multi30k");
  EXPECT_EQ(data_directory("/elsewhere", "/flag"), "/elsewhere");
}

}  // namespace
}  // namespace foldgrad::testing
