#include "train/system/isolated.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

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

// The child cannot read the middle of its own result: it has written the beginning when writing fails.
TEST(OutputOfChild, IsEmptyWhenItCannotBeWrittenToItsEnd) {
  EXPECT_EQ(output_of_child([] {
              std::string result(1 << 20, 'a');
              const std::uintptr_t page = std::uintptr_t(sysconf(_SC_PAGESIZE)),
                                   middle = (std::uintptr_t(result.data()) + result.size() / 2) / page * page;
              if (mprotect(reinterpret_cast<void*>(middle), page, PROT_NONE) != 0) _exit(0);
              return result;
            }).size(),
            0u);
}

}  // namespace
}  // namespace foldgrad
