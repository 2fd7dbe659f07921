#include "ops/segments/segments.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(Segments, RoomIsLengthUnlessItIsGiven) {
  const Segments s({3, 0, 2});
  EXPECT_EQ(s.count(), 3);
  EXPECT_EQ(s.rows(), 5);
  EXPECT_EQ(s.tokens(), 5);
  EXPECT_EQ(s.longest(), 3);
  EXPECT_EQ(s.offsets().values<std::int64_t>(), (Numbers{0, 3, 3, 5}));
  EXPECT_EQ(s.places().values<std::int64_t>(), (Numbers{0, 1, 2, 0, 1}));
  EXPECT_EQ(s.token_rows().values<std::int64_t>(), (Numbers{0, 1, 2, 3, 4}));
}

TEST(Segments, SurplusRowsAreNoTokens) {
  const Segments s({1, 2}, {3, 2});
  EXPECT_EQ(s.rows(), 5);
  EXPECT_EQ(s.tokens(), 3);
  EXPECT_EQ(s.room(0), 3);
  EXPECT_EQ(s.length(0), 1);
  EXPECT_EQ(s.offset(1), 3);
  EXPECT_EQ(s.lengths().values<std::int64_t>(), (Numbers{1, 2}));
  EXPECT_EQ(s.places().values<std::int64_t>(), (Numbers{0, -1, -1, 0, 1}));
  EXPECT_EQ(s.token_rows().values<std::int64_t>(), (Numbers{0, 3, 4}));
}

TEST(Segments, NoneHaveNoRows) {
  const Segments s;
  EXPECT_EQ(s.count(), 0);
  EXPECT_EQ(s.rows(), 0);
  EXPECT_EQ(s.longest(), 0);
}

TEST(Segments, OneLengthOfAll) {
  EXPECT_EQ(Segments({3, 3}).equal_length(), 3);
  EXPECT_EQ(Segments({3, 2}).equal_length(), -1);
  EXPECT_EQ(Segments({2, 2}, {3, 3}).equal_length(), -1);
}

TEST(Segments, EqualOnesAndTablesOnADevice) {
  for (Device device : devices()) {
    const Segments s = Segments::equal(2, 4).to(device);
    EXPECT_EQ(s.device(), device);
    EXPECT_EQ(s.offsets().values<std::int64_t>(), (Numbers{0, 4, 8}));
    EXPECT_EQ(s.lengths().values<std::int64_t>(), (Numbers{4, 4}));
    EXPECT_EQ(s.room(1), 4);  // on the host nevertheless
  }
}

TEST(Segments, Messages) {
  EXPECT_EQ(message_of([] { Segments({1, 2}, {3}); }), "segments: there must be a room for each of 2 lengths, got 1");
  EXPECT_EQ(message_of([] {
              Segments({1, 4}, {3, 3});
            }),
            "segments: the length of segment 1 must be in [0, its room = 3], got 4");
  EXPECT_EQ(message_of([] { Segments({-1}); }),
            "segments: the length of segment 0 must be in [0, its room = -1], got -1");
}

}  // namespace
}  // namespace foldgrad::testing
