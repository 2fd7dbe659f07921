// Tests that the published files of CIFAR-10 have the digests that `foldgrad data fetch` requires.
#include <algorithm>

#include "tests/realdata/real_data.h"
#include "train/data/fetch.h"

namespace foldgrad::testing {
namespace {

TEST(Cifar10, FilesHaveTheDigestsThatFetchingAsksFor) {
  const RealData files("cifar-10-batches-bin", "cifar-10-batches-bin.tar.xz");
  FOLDGRAD_SKIP_WITHOUT(files, "cifar-10-batches-bin");
  const auto set = std::ranges::find(data_sets(), std::string("cifar10"), &DataSet::name);
  ASSERT_NE(set, data_sets().end());
  EXPECT_EQ(set->digests.size(), 6u);
  EXPECT_TRUE(has_images(*set, files.path()));
}

}  // namespace
}  // namespace foldgrad::testing
