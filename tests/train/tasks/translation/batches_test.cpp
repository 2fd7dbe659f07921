#include "train/tasks/translation/batches.h"

#include <algorithm>
#include <set>

#include "tests/engine/error_message.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

Ids sentence(std::int64_t words, std::int64_t first) {
  Ids ids;
  for (std::int64_t i = 0; i < words; ++i) ids.push_back(first + i);
  ids.push_back(kEos);
  return ids;
}

EncodedPairs pairs_of(const std::vector<std::pair<int, int>>& lengths) {
  EncodedPairs pairs;
  for (const auto& [source, target] : lengths) {
    pairs.source.push_back(sentence(source, 10));
    pairs.target.push_back(sentence(target, 50));
  }
  return pairs;
}

std::vector<std::vector<std::int64_t>> epoch_of(Batches& batches) {
  std::vector<std::vector<std::int64_t>> rows;
  for (std::int64_t i = batches.per_epoch(); i > 0; --i) rows.push_back(batches.next().pairs);
  return rows;
}

TEST(Batches, BAT_4_WorkedByHand) {
  Batches batches(pairs_of({{1, 2}, {2, 1}}), {.max_tokens = 100, .shuffle = false});
  ASSERT_EQ(batches.per_epoch(), 1);
  const Batch batch = batches.next();
  const std::int64_t e = kEos;
  const TranslationBatch& s = batch.sentences;
  EXPECT_EQ(batch.pairs, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(s.source.ids.values<std::int64_t>(), (Ids{10, e, 10, 11, e}));
  EXPECT_EQ(s.source.rows.lengths().values<std::int64_t>(), (Ids{2, 3}));
  EXPECT_EQ(s.target.values<std::int64_t>(), (Ids{50, 51, e, 50, e}));
  EXPECT_EQ(s.input.ids.values<std::int64_t>(), (Ids{e, 50, 51, e, 50}));
  EXPECT_EQ(s.input.rows.lengths().values<std::int64_t>(), (Ids{3, 2}));
  EXPECT_EQ(batch.source_tokens(), 5);
  EXPECT_EQ(batch.target_tokens(), 5);
}

// Pairs are sorted by source length, then by target length; both include eos. The order is 4 (2, 2), 1 (2, 3), 0 (3,
// 2), 3 (3, 2), 2 (3, 4).
TEST(Batches, BAT_1_BAT_2_OrderAndSizesByHand) {
  const EncodedPairs pairs = pairs_of({{2, 1}, {1, 2}, {2, 3}, {2, 1}, {1, 1}});
  Batches batches(pairs, {.max_tokens = 9, .multiple = 2, .shuffle = false});
  // Pairs 4, 1 and 0 would fill the 9 tokens, but 3 rows are not a multiple of 2. So the first batch has only pairs 4
  // and 1. Pair 2 has a target of length 4 and would raise the next batch to 3 * 4 = 12 tokens. So that batch has only
  // pairs 0 and 3.
  EXPECT_EQ(epoch_of(batches), (std::vector<std::vector<std::int64_t>>{{4, 1}, {0, 3}, {2}}));
}

// The long pair closes a batch of 3 rows. The batch keeps 2 of them, a multiple of 2. The third row must not share a
// batch with the long pair, since 2 rows of length 7 exceed the limit of 8 tokens.
TEST(Batches, BAT_2_NoBatchExceedsTheLimitAfterARemainder) {
  Batches batches(pairs_of({{1, 1}, {1, 1}, {1, 1}, {6, 6}}), {.max_tokens = 8, .multiple = 2, .shuffle = false});
  EXPECT_EQ(epoch_of(batches), (std::vector<std::vector<std::int64_t>>{{0, 1}, {2}, {3}}));
}

RC_GTEST_PROP(Batches, BAT_2_BAT_3_EveryPairOncePerEpochWithinTheLimit, ()) {
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 30), rc::gen::inRange(0, 30))));
  BatchOptions options;
  options.max_tokens = *rc::gen::inRange(31, 400);
  options.multiple = *rc::gen::inRange(1, 9);
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  const EncodedPairs pairs = pairs_of(lengths);
  Batches batches(pairs, options);
  std::set<std::vector<std::int64_t>> first;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int> times(lengths.size());
    std::set<std::vector<std::int64_t>> all;
    for (std::int64_t i = 0; i < batches.per_epoch(); ++i) {
      const Batch batch = batches.next();
      const std::int64_t rows = std::int64_t(batch.pairs.size());
      RC_ASSERT(rows * std::max(batch.sentences.source.rows.longest(), batch.sentences.input.rows.longest()) <=
                options.max_tokens);
      RC_ASSERT(rows < options.multiple || rows % options.multiple == 0);
      for (const std::int64_t pair : batch.pairs) ++times[pair];
      all.insert(batch.pairs);
    }
    RC_ASSERT(times == std::vector<int>(lengths.size(), 1));
    if (epoch == 0) first = all;
    RC_ASSERT(all == first);
  }
}

TEST(Batches, BAT_3_OrderFollowsSeedAndEpoch) {
  std::vector<std::pair<int, int>> lengths;
  for (int i = 0; i < 500; ++i) lengths.emplace_back(i * 7 % 23, i * 5 % 19);
  const EncodedPairs pairs = pairs_of(lengths);
  Batches a(pairs, {.max_tokens = 200, .seed = 3}), b(pairs, {.max_tokens = 200, .seed = 3}),
      c(pairs, {.max_tokens = 200, .seed = 4});
  const auto a0 = epoch_of(a), a1 = epoch_of(a);
  EXPECT_EQ(a0, epoch_of(b));
  EXPECT_EQ(a1, epoch_of(b));
  EXPECT_NE(a0, a1);
  EXPECT_NE(a0, epoch_of(c));
}

TEST(Batches, ErrorsNameThePairAndTheNumbers) {
  EncodedPairs pairs = pairs_of({{1, 1}, {2, 5}});
  EXPECT_EQ(message<std::invalid_argument>([&] { Batches(pairs, {.max_tokens = 5}); }),
            "batches: the target of pair 1 must have at most max_tokens = 5 tokens, got 6");
  EXPECT_EQ(message<std::invalid_argument>([&] { Batches(pairs, {.max_tokens = 0}); }),
            "batches: max_tokens must be at least 1, got 0");
  EXPECT_EQ(message<std::invalid_argument>([&] { Batches(pairs, {.multiple = 0}); }),
            "batches: multiple must be at least 1, got 0");
  EXPECT_EQ(message<std::invalid_argument>([&] { Batches({}, {}); }),
            "batches: there must be at least one pair, got 0");
  pairs.source[1].pop_back();
  EXPECT_EQ(message<std::invalid_argument>([&] { Batches(pairs, {}); }),
            "batches: the source of pair 1 must end with eos");
  pairs.source.pop_back();
  EXPECT_EQ(message<std::invalid_argument>([&] { Batches(pairs, {}); }),
            "batches: there must be as many targets as sources, got 1 sources and 2 targets");
}

}  // namespace
}  // namespace foldgrad::testing
