#include "ops/flip/flip.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpCase flip_case(const Shape& x, int axis) {
  return random_case({x}, fmt::format("axis {} of {}", axis, x), [axis](auto& v) { return flip(v[0], axis); });
}

// The axis is the first, a middle or the last one. Its size is odd, even, 1, 0, or more than the 256 threads of a
// block.
const RegisterOp kFlip({
    .name = "flip",
    .cases = {flip_case({2, 3}, 1), flip_case({4, 3}, 0), flip_case({2, 4, 3}, 1), flip_case({2, 1, 3}, 1),
              flip_case({2, 0}, 1), flip_case({5, 257}, -1), flip_case({33, 3, 7}, -2)},
    .errors = {{"flip: axis 2 does not exist in [2, 3]", [](Tape& t) { flip(zeros(t, 2, 3), 2); }}},
    .f32_roundoffs = 0,  // nothing is computed
    .bf16_roundoffs = 0,
});

TEST(Flip, FLIP_1_FLIP_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 3}, {1, 2, 3, 4, 5, 6})},
                  .y = {3, 2, 1, 6, 5, 4},
                  .dy = {10, 20, 30, 40, 50, 60},
                  .gradients = {{30, 20, 10, 60, 50, 40}}},
                 [](auto& v) { return flip(v[0], 1); });
}

}  // namespace
}  // namespace foldgrad::testing
