// Tests windows of a text. Token i has the id i, so the ids show where a window begins.
#include "train/tasks/language/windows.h"

#include <set>

#include "tests/engine/error_message.h"
#include "tests/harness/properties.h"
#include "train/loop/permutation.h"

namespace foldgrad::testing {
namespace {

// Returns the first token of each window. Checks that the other tokens and targets follow in order.
Ids begins_of(const WindowBatch& batch) {
  const std::vector<std::int64_t> ids = batch.ids.values<std::int64_t>(), target = batch.target.values<std::int64_t>();
  const std::int64_t T = batch.ids.shape()[1];
  Ids begins;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % T == 0) begins.push_back(ids[i]);
    RC_ASSERT(ids[i] == begins.back() + std::int64_t(i % T));
    RC_ASSERT(target[i] == ids[i] + 1);
  }
  return begins;
}

RC_GTEST_PROP(Windows, WIN_1_WIN_2_OfAnEpochAreApartAndAsManyWhateverTheOffset, ()) {
  const auto T = *rc::gen::inRange<std::int64_t>(1, 7), B = *rc::gen::inRange<std::int64_t>(1, 5);
  const std::int64_t tokens = T * (B + 1) + *rc::gen::inRange<std::int64_t>(0, 40);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  Windows windows(counting(tokens), {.length = T, .size = B, .seed = seed}),
      same(counting(tokens), {.length = T, .size = B, .seed = seed, .prefetch = true});
  RC_ASSERT(windows.per_epoch() == (tokens / T - 1) / B);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int64_t> all, offsets;
    for (std::int64_t i = 0; i < windows.per_epoch(); ++i) {
      const WindowBatch batch = windows.next();
      RC_ASSERT(batch.ids.shape() == Shape({B, T}));
      RC_ASSERT(batch.target.shape() == Shape({B, T}));
      for (const std::int64_t begin : begins_of(batch)) {
        RC_ASSERT(begin >= 0 && begin + T < tokens);  // the last token also needs a target
        offsets.insert(begin % T);
        all.insert(begin);
      }
      RC_ASSERT(same.next().ids.values<std::int64_t>() == batch.ids.values<std::int64_t>());
    }
    RC_ASSERT(std::int64_t(all.size()) == windows.per_epoch() * B);
    RC_ASSERT(offsets.size() == 1u);
  }
}

std::vector<Ids> epoch_of(Windows& windows) {
  std::vector<Ids> all;
  for (std::int64_t i = 0; i < windows.per_epoch(); ++i) all.push_back(begins_of(windows.next()));
  return all;
}

// Forty epochs miss one of the four offsets for one seed in 25,000 (4 * 0.75^40). A missing window or a repeated order
// is far less likely.
TEST(Windows, WIN_1_WIN_2_OffsetsAndOrdersAreDrawnForEachEpochBySeed) {
  const WindowOptions options{.length = 4, .size = 5, .seed = 3};
  Windows windows(counting(54), options);  // twelve windows and two batches
  std::set<std::int64_t> offsets, begins;
  std::set<std::vector<Ids>> orders;
  for (int epoch = 0; epoch < 40; ++epoch) {
    const std::vector<Ids> all = epoch_of(windows);
    orders.insert(all);
    for (const Ids& batch : all)
      for (const std::int64_t begin : batch) offsets.insert(begin % 4), begins.insert(begin / 4);
  }
  EXPECT_EQ(offsets.size(), 4u);
  EXPECT_EQ(begins.size(), 12u);
  EXPECT_EQ(orders.size(), 40u);
  windows.seek({7, 1});
  const WindowBatch sought = windows.next();
  EXPECT_EQ(windows.cursor(), (DataCursor{8, 0}));
  windows.seek({7, 0});
  EXPECT_EQ(epoch_of(windows)[1], begins_of(sought));
  Windows other(counting(54), {.length = 4, .size = 5, .seed = 4});
  windows.seek({0, 0});
  EXPECT_NE(epoch_of(windows), epoch_of(other));
}

RC_GTEST_PROP(Windows, InOrderEveryTokenButTheFirstIsATargetOnce, ()) {
  const auto tokens = *rc::gen::inRange<std::int64_t>(2, 60), T = *rc::gen::inRange<std::int64_t>(1, 9),
             B = *rc::gen::inRange<std::int64_t>(1, 5);
  std::int64_t next = 0;
  for (const WindowBatch& batch : windows_in_order(counting(tokens), T, B)) {
    const std::int64_t rows = batch.ids.shape()[0], length = batch.ids.shape()[1];
    for (const std::int64_t begin : begins_of(batch)) {
      RC_ASSERT(begin == next);
      next += length;
    }
    RC_ASSERT(rows <= B && length <= T);
    RC_ASSERT(length == T || (rows == 1 && next == tokens - 1));
  }
  RC_ASSERT(next == tokens - 1);
}

TEST(Windows, RefuseTextsThatAreTooShort) {
  const auto error = [](std::int64_t tokens, const WindowOptions& options) {
    return message<std::invalid_argument>([&] { Windows(counting(tokens), options); });
  };
  EXPECT_EQ(error(12, {.length = 4, .size = 2}), "no error");
  EXPECT_EQ(error(11, {.length = 4, .size = 2}),
            "a training text must have at least 12 tokens for 2 sequences of length 4, got 11");
  EXPECT_EQ(error(9, {.length = 0, .size = 2}), "windows: length and size must be at least 1, got 0 and 2");
  EXPECT_EQ(error(9, {.length = 1, .size = 0}), "windows: length and size must be at least 1, got 1 and 0");
  for (const std::int64_t tokens : {0, 1})
    EXPECT_EQ(message<std::invalid_argument>([&] { windows_in_order(counting(tokens), 4, 2); }),
              "a text must have at least 2 tokens, got " + std::to_string(tokens));
}

}  // namespace
}  // namespace foldgrad::testing
