#include "train/data/permutation.h"

#include <gtest/gtest.h>

#include <map>

namespace foldgrad::testing {
namespace {

// Each of the 6 orders about 100 times of 600, with a deviation of 9.1: beyond 5 of them, once in a million seeds.
TEST(Permutation, EveryOrderIsAsLikely) {
  std::map<std::vector<std::int64_t>, int> times;
  for (std::uint32_t step = 0; step < 600; ++step) ++times[permutation(3, {.seed = 1, .stream = 2, .step = step})];
  ASSERT_EQ(times.size(), 6u);
  for (const auto& [order, count] : times) EXPECT_NEAR(count, 100, 46) << order[0] << order[1] << order[2];
}

TEST(Permutation, OfNothingAndOne) {
  EXPECT_TRUE(permutation(0, {}).empty());
  EXPECT_EQ(permutation(1, {}), counting(1));
  EXPECT_EQ(counting(3), (std::vector<std::int64_t>{0, 1, 2}));
}

}  // namespace
}  // namespace foldgrad::testing
