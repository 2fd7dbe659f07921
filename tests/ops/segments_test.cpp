#include "ops/segments/segments.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(Segments, FollowOneAnother) {
  const Segments s({3, 0, 2});
  EXPECT_EQ(s.count(), 3);
  EXPECT_EQ(s.rows(), 5);
  EXPECT_EQ(s.longest(), 3);
  EXPECT_EQ(s.length(2), 2);
  EXPECT_EQ(s.offsets().values<std::int64_t>(), (Numbers{0, 3, 3, 5}));
  EXPECT_EQ(s.lengths().values<std::int64_t>(), (Numbers{3, 0, 2}));
  EXPECT_EQ(s.places().values<std::int64_t>(), (Numbers{0, 1, 2, 0, 1}));
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
}

TEST(Segments, EqualOnesAndATableOnADevice) {
  for (Device device : devices()) {
    const Segments s = Segments::equal(2, 4).to(device);
    EXPECT_EQ(s.device(), device);
    EXPECT_EQ(s.offsets().values<std::int64_t>(), (Numbers{0, 4, 8}));
    EXPECT_EQ(s.length(1), 4);  // lengths and offsets are also on the host
  }
}

TEST(Segments, Messages) {
  EXPECT_EQ(message_of([] { Segments({1, -1}); }), "segments: the length of segment 1 must be at least 0, got -1");
}

}  // namespace
}  // namespace foldgrad::testing
