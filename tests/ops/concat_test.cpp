#include "ops/concat/concat.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

OpCase concat_case(const std::vector<Shape>& shapes, int axis) {
  return random_case(shapes, fmt::format("{} operands like {} along {}", shapes.size(), shapes[0], axis),
                     [axis](auto& v) { return concat(v, axis); });
}
OpCase slice_case(const Shape& x, int axis, std::int64_t begin, std::int64_t end) {
  return random_case({x}, fmt::format("[{}, {}) of axis {} of {}", begin, end, axis, x),
                     [=](auto& v) { return slice(v[0], axis, begin, end); });
}

OpError concat_error(const char* message, const std::vector<Shape>& shapes, int axis) {
  return error_of_zeros(message, shapes, [axis](auto& v) { return concat(v, axis); });
}
OpError slice_error(const char* message, int axis, std::int64_t begin, std::int64_t end) {
  return error_of_zeros(message, {{2, 3}}, [=](auto& v) { return slice(v[0], axis, begin, end); });
}

const RegisterOp kConcat({
    .name = "concat",
    .cases = {concat_case({{2, 3}, {2, 1}, {2, 2}}, 1), concat_case({{2, 3}, {1, 3}}, 0), concat_case({{2, 3}}, -1),
              concat_case({{2, 2, 3}, {2, 1, 3}}, 1), concat_case({{2, 2}, {2, 2}}, -2),
              concat_case({{2, 0}, {2, 3}}, 1), concat_case({{5, 200}, {5, 57}}, 1),
              concat_case({{5, 200}, {5, 56}}, 1)},
    .errors =
        {concat_error("concat: needs at least one operand, got none", {}, 0),
         concat_error(
             "concat: operand 1 must be f32 [2, 4] on cpu (operand 0 is f32 [2, 3] on cpu), got f32 [3, 4] on cpu",
             {{2, 3}, {3, 4}}, 1),
         concat_error(
             "concat: operand 1 must be f32 [2, 3] on cpu (operand 0 is f32 [2, 3] on cpu), got f32 [2, 3, 1] on cpu",
             {{2, 3}, {2, 3, 1}}, 1),
         concat_error("concat: axis 2 does not exist in [2, 3]", {{2, 3}}, 2)},
    .f32_roundoffs = 0,  // nothing is computed
    .bf16_roundoffs = 0,
});

// The cases slice rows and columns, in the middle and at the ends. One slice is empty, and one is the whole tensor. In
// the last case, a row of the slice has more elements than a part of the CPU's loop, 16,384.
const RegisterOp kSlice({
    .name = "slice",
    .cases = {slice_case({3, 4}, 1, 1, 3), slice_case({3, 4}, 0, 1, 2), slice_case({2, 3, 2}, 1, 2, 3),
              slice_case({2, 3, 2}, -2, 0, 2), slice_case({2, 3}, 1, 0, 3), slice_case({2, 3}, 1, 1, 1),
              slice_case({1, 5}, 1, 2, 4), slice_case({3, 300}, 1, 21, 290), slice_case({2, 20000}, 1, 100, 19000)},
    .errors = {slice_error("slice: [1, 4) must lie within axis 1 of [2, 3]", -1, 1, 4),
               slice_error("slice: [2, 1) must lie within axis 0 of [2, 3]", 0, 2, 1),
               slice_error("slice: [-1, 1) must lie within axis 0 of [2, 3]", 0, -1, 1),
               slice_error("slice: axis -3 does not exist in [2, 3]", -3, 0, 1)},
    .f32_roundoffs = 0,  // nothing is computed
    .bf16_roundoffs = 0,
});

TEST(Concat, CAT_1_CAT_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 1}, {1, 2}), numbers({2, 2}, {3, 4, 5, 6})},
                  .y = {1, 3, 4, 1, 2, 5, 6, 2},
                  .dy = {1, 2, 3, 4, 5, 6, 7, 8},
                  .gradients = {{5, 13}, {2, 3, 6, 7}}},
                 [](auto& v) {
                   return concat({v[0], v[1], v[0]}, 1);
                 });
}

TEST(Concat, CUT_1_CUT_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 3}, {1, 2, 3, 4, 5, 6})},
                  .y = {2, 3, 5, 6},
                  .dy = {7, 8, 9, 10},
                  .gradients = {{0, 7, 8, 0, 9, 10}}},
                 [](auto& v) { return slice(v[0], 1, 1, 3); });
}

TEST(Concat, CUT_1_SlicesOfTheOutermostAxisAreViews) {
  Tape tape;
  const Var x = tape.constant(randn({4, 3}, 1));
  EXPECT_TRUE(slice(x, 0, 1, 3).value().shares_storage_with(x.value()));
  EXPECT_TRUE(identical(slice(x, 0, 1, 3).value(), x.value().slice(1, 3)));
}

// Cutting a tensor anywhere and joining the two pieces gives the same tensor. The gradient passes unchanged.
RC_GTEST_PROP(Concat, CAT_1_CUT_1_JoiningThePiecesGivesTheWhole, ()) {
  const Shape shape{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 6), *rc::gen::inRange(1, 4)};
  const int axis = *rc::gen::inRange(0, 3);
  const std::int64_t cut = *rc::gen::inRange<std::int64_t>(0, shape[axis] + 1);
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(randn(shape, 1).to(device));
    const Var y = concat({slice(x, axis, 0, cut), slice(x, axis, cut, shape[axis])}, axis);
    RC_ASSERT(bool(identical(y.value(), x.value())));
    const Tensor dy = randn(shape, 2).to(device);
    tape.backward(y, dy);
    RC_ASSERT(bool(identical(tape.grad(x), dy)));
  }
}

}  // namespace
}  // namespace foldgrad::testing
