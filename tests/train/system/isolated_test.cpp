#include "train/system/isolated.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace foldgrad {
namespace {

TEST(OutputOfChild, IsEmptyUnlessTheChildCameToTheEnd) {
  EXPECT_EQ(output_of_child([] { return std::string("all"); }), "all");
  EXPECT_EQ(output_of_child([]() -> std::string { _exit(3); }), "");
  EXPECT_EQ(output_of_child([]() -> std::string {
              raise(SIGKILL);
              return "part";
            }),
            "");
}

}  // namespace
}  // namespace foldgrad
