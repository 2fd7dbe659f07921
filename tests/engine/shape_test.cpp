#include "engine/shape.h"

#include "tests/harness/compare.h"

namespace foldgrad {
namespace {

using testing::message_of;
constexpr std::int64_t kMax = INT64_MAX;

TEST(Shape, OneAxisChangedOrLeftOut) {
  const Shape shape = {2, 3, 5};
  EXPECT_EQ(shape.with(1, 7), (Shape{2, 7, 5}));
  EXPECT_EQ(shape.with(-1, 0), (Shape{2, 3, 0}));
  EXPECT_EQ(shape.with(-1, 0).elements(), 0);
  EXPECT_EQ(shape.without(0), (Shape{3, 5}));
  EXPECT_EQ(shape.without(-1), (Shape{2, 3}));
  EXPECT_EQ(shape.without(-1).elements(), 6);
  EXPECT_EQ(shape, (Shape{2, 3, 5}));
}

std::string refusal(std::vector<std::int64_t> sizes) {
  return message_of([&] { Shape shape(sizes); });
}

TEST(Shape, Refusals) {
  EXPECT_THROW((Shape{2, -1}), std::invalid_argument);
  EXPECT_EQ(refusal({2, -1}), "shape: sizes must not be negative, got [2, -1]");
  EXPECT_EQ(refusal({0, -1}), "shape: sizes must not be negative, got [0, -1]");
  EXPECT_EQ(message_of([] { Shape{2, 3}.with(0, -4); }), "shape: sizes must not be negative, got [-4, 3]");
  const std::string too_many = "shape: there must be at most 2^63 - 1 elements, got ";
  EXPECT_EQ(refusal({kMax, 2}), too_many + "[9223372036854775807, 2]");
  // Modulo 2^64, the number of elements would be 0.
  EXPECT_EQ(refusal({std::int64_t(1) << 32, std::int64_t(1) << 32}), too_many + "[4294967296, 4294967296]");
  // This shape has no elements, but the stride of its first axis would overflow.
  EXPECT_EQ(refusal({0, kMax, 2}), too_many + "[0, 9223372036854775807, 2]");
  EXPECT_EQ((Shape{0, kMax}).stride(0), kMax);
}

TEST(Shape, TheLargest) {
  EXPECT_EQ((Shape{kMax, 1}).elements(), kMax);
  EXPECT_EQ((Shape{7, 7, kMax / 49}).elements(), kMax);  // 2^63 - 1 = 7 * 7 * 73 * ...
}

}  // namespace
}  // namespace foldgrad
