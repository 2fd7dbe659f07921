// Tests the constants of windowed attention: the order of tokens, the rows of the bias table, and the mask.
#include "models/swin/windows.h"

#include <cstdlib>

#include "ops/attention/attention.h"
#include "ops/concat/concat.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

MapWindows windows_of(std::int64_t side, std::int64_t size, std::int64_t shift) {
  return MapWindows(side, size, shift, /*heads=*/1, DType::f64, Device::cpu);
}
std::vector<std::int64_t> numbers_of(const Tensor& t) { return t.values<std::int64_t>(); }

// A 4 x 4 map has the rows 0 1 2 3, 4 5 6 7, 8 9 10 11 and 12 13 14 15. Rolled by one, it begins with token 5.
TEST(SwinWindows, SWIN_2_TheOrderOfTokensWorkedByHand) {
  EXPECT_EQ(numbers_of(windows_of(4, 2, 0).order.order),
            (std::vector<std::int64_t>{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15}));
  EXPECT_EQ(numbers_of(windows_of(4, 2, 1).order.order),
            (std::vector<std::int64_t>{5, 6, 9, 10, 7, 4, 11, 8, 13, 14, 1, 2, 15, 12, 3, 0}));
}

TEST(SwinWindows, SWIN_2_AMapOfOneWindowKeepsItsOrder) {
  const std::vector<std::int64_t> order = numbers_of(windows_of(7, 7, 0).order.order);
  for (std::int64_t n = 0; n < 49; ++n) EXPECT_EQ(order[std::size_t(n)], n);
}

TEST(SwinWindows, SWIN_3_ThePairsOfABiasAreOppositeInTheTable) {
  for (std::int64_t size : {1, 2, 7}) {
    const std::int64_t tokens = size * size, last = (2 * size - 1) * (2 * size - 1) - 1;
    const std::vector<std::int64_t> rows = numbers_of(windows_of(size, size, 0).table_rows);
    for (std::int64_t a = 0; a < tokens; ++a)
      for (std::int64_t b = 0; b < tokens; ++b)
        EXPECT_EQ(rows[std::size_t(a * tokens + b)] + rows[std::size_t(b * tokens + a)], last);
  }
  // Token 1 is to the right of token 0, and token 2 is below it.
  EXPECT_EQ(numbers_of(windows_of(2, 2, 0).table_rows),
            (std::vector<std::int64_t>{4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4}));
}

// Two tokens of a window attend to each other unless the roll brought them together from opposite edges of the map.
TEST(SwinWindows, SWIN_3_TheMaskSeparatesTokensThatAreNoNeighbours) {
  const std::int64_t side = 6, size = 3, shift = 1;
  const MapWindows windows = windows_of(side, size, shift);
  const std::vector<std::int64_t> order = numbers_of(windows.order.order);
  std::int64_t hidden = 0;
  for (std::int64_t w = 0; w < windows.count; ++w)
    for (std::int64_t a = 0; a < windows.tokens; ++a)
      for (std::int64_t b = 0; b < windows.tokens; ++b) {
        const std::int64_t at_a = order[std::size_t(w * windows.tokens + a)],
                           at_b = order[std::size_t(w * windows.tokens + b)];
        const bool near = std::abs(at_a / side - at_b / side) < size && std::abs(at_a % side - at_b % side) < size;
        const double mask = windows.mask.data<double>()[(w * windows.tokens + a) * windows.tokens + b];
        EXPECT_EQ(mask, near ? 0 : -100) << "tokens " << at_a << " and " << at_b;
        hidden += !near;
      }
  EXPECT_GT(hidden, 0);
}

// The gradient of a value is its attention probability. Across a border, this probability is e^-100 times the
// exponential of a difference of scores, far below 1e-35.
TEST(SwinWindows, SWIN_3_NoGradientCrossesABorder) {
  const MapWindows windows = windows_of(4, 2, 1);
  Tape tape;
  const Var qkv = tape.variable(randn({16, 3}, 1)), mask = tape.constant(windows.mask.reshape({4, 1, 4, 4}));
  const Var y = attention_packed(qkv, mask, {.heads = 1}, Segments::equal(4, 4));
  // The last window consists of the four corners of the map, tokens 15, 12, 3 and 0, which are not neighbours.
  tape.backward(slice(y, 0, 12, 13), Tensor::full({1, 1}, 1, DType::f64));
  const std::vector<double> grads = tape.grad(qkv).values<double>();
  for (std::int64_t row = 0; row < 16; ++row) {
    const bool own = row == 12;
    EXPECT_NEAR(grads[std::size_t(row * 3 + 2)], own ? 1 : 0, own ? 1e-12 : 1e-35) << row;
  }
}

TEST(SwinWindows, SWIN_4_NeighboursWorkedByHand) {
  EXPECT_EQ(numbers_of(neighbours(4, Device::cpu).order),
            (std::vector<std::int64_t>{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}));
}

}  // namespace
}  // namespace foldgrad::testing
