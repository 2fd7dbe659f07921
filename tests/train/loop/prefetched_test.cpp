// Tests sequences of batches, and the permutations that order them.
#include "train/loop/prefetched.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/engine/error_message.h"
#include "train/loop/permutation.h"

namespace foldgrad::testing {
namespace {

using Order = std::vector<std::int64_t>;

// A toy batch is a pair of its epoch and an example, 0 to 2. Epoch e begins with example e mod 3.
using Toy = std::pair<std::int64_t, std::int64_t>;

class PrefetchedTest : public ::testing::TestWithParam<bool> {
 protected:
  std::vector<Toy> next(int batches) {
    std::vector<Toy> all;
    for (int i = 0; i < batches; ++i) all.push_back(toys_.next());
    return all;
  }

  Prefetched<Toy> toys_{{.name = "toys",
                         .per_epoch = 3,
                         .order =
                             [](std::int64_t e) {
                               return Order{e % 3, (e + 1) % 3, (e + 2) % 3};
                             },
                         .make = [](const Order& order, DataCursor at) { return Toy(at.epoch, order[at.batch]); },
                         .prefetch = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(WithAThreadOrNone, PrefetchedTest, ::testing::Bool());

TEST_P(PrefetchedTest, EpochsFollowEachOtherInTheirOrders) {
  EXPECT_EQ(next(2), (std::vector<Toy>{{0, 0}, {0, 1}}));
  EXPECT_EQ(toys_.cursor(), (DataCursor{0, 2}));
  EXPECT_EQ(next(5), (std::vector<Toy>{{0, 2}, {1, 1}, {1, 2}, {1, 0}, {2, 2}}));
  EXPECT_EQ(toys_.cursor(), (DataCursor{2, 1}));
}

// seek() must drop the batch that was made in advance, even right after the last batch of an epoch.
TEST_P(PrefetchedTest, AfterSeekTheBatchesOfThatPlaceFollow) {
  for (const int before : {0, 1, 3}) {
    next(before);
    toys_.seek({7, 2});
    EXPECT_EQ(next(2), (std::vector<Toy>{{7, 0}, {8, 2}})) << before;
  }
}

TEST_P(PrefetchedTest, CursorsOutsideAreRefused) {
  const auto error_of = [&](DataCursor cursor) { return message<std::invalid_argument>([&] { toys_.seek(cursor); }); };
  const std::string rule = "toys: the cursor's epoch must be at least 0 and its batch in [0, 3), got ";
  EXPECT_EQ(error_of({0, 3}), rule + "epoch 0, batch 3");
  EXPECT_EQ(error_of({1, -1}), rule + "epoch 1, batch -1");
  EXPECT_EQ(error_of({-1, 0}), rule + "epoch -1, batch 0");
}

// In 600 draws, each of the 6 orders occurs about 100 times, with a standard deviation of 9.1. The bound of 46 is five
// deviations; some count exceeds it for one seed in 250,000.
TEST(Permutation, EveryOrderIsAsLikely) {
  std::map<Order, int> times;
  for (std::uint32_t step = 0; step < 600; ++step) ++times[permutation(3, {.seed = 1, .stream = 2, .step = step})];
  ASSERT_EQ(times.size(), 6u);
  for (const auto& [order, count] : times) EXPECT_NEAR(count, 100, 46) << order[0] << order[1] << order[2];
}

TEST(Permutation, OfNothingAndOne) {
  EXPECT_TRUE(permutation(0, {}).empty());
  EXPECT_EQ(permutation(1, {}), counting(1));
  EXPECT_EQ(counting(3), (Order{0, 1, 2}));
}

}  // namespace
}  // namespace foldgrad::testing
