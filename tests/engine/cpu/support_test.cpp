#include "engine/cpu/support.h"

#include <climits>

#include "tests/harness/file_test.h"

namespace foldgrad::testing {
namespace {

class ProcessorQuota : public FileTest {};

TEST_F(ProcessorQuota, IsRoundedUpInBothVersionsOfControlGroups) {
  EXPECT_EQ(processor_quota(files_.path()), INT_MAX);
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(processor_quota(files_.path()), INT_MAX);
  write("cpu/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ(processor_quota(files_.path()), 3);
  write("cpu.max", "20000 100000\n");
  EXPECT_EQ(processor_quota(files_.path()), 1);
  write("cpu.max", "400000 100000\n");
  EXPECT_EQ(processor_quota(files_.path()), 4);
}

TEST_F(ProcessorQuota, IsNoneWhereTheFileSaysMax) {
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(processor_quota(files_.path()), INT_MAX);
}

}  // namespace
}  // namespace foldgrad::testing
