#include "ops/conv2d/conv2d.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpFunction unfold_of(std::int64_t height, std::int64_t width, Conv2dOptions o) {
  return [=](auto& v) { return unfold(v[0], height, width, o); };
}
OpCase unfold_case(const Shape& x, std::int64_t height, std::int64_t width, Conv2dOptions o = {}) {
  return random_case({x}, fmt::format("{}, {} x {}, stride {}, padding {}", x, height, width, o.stride, o.padding),
                     unfold_of(height, width, o));
}
OpError unfold_error(const char* message, const Shape& x, std::int64_t height, std::int64_t width,
                     Conv2dOptions o = {}) {
  return error_of_zeros(message, {x}, unfold_of(height, width, o));
}

Var patches(const std::vector<Var>& v) { return patch_embedding(v[0], v[1], v[2]); }
OpCase patch_case(const Shape& x, const Shape& weight) { return random_case({x, weight, {weight[0]}}, patches); }
OpError patch_error(const char* message, const Shape& weight) {
  return error_of_zeros(message, {{1, 4, 6, 3}, weight, {weight[0]}}, patches);
}

// In some cases, windows overlap, leave gaps, do not reach the border, or contain only padding. One case has more
// channels than a chunk, 64.
const RegisterOp kUnfold({
    .name = "unfold",
    .cases = {unfold_case({2, 3, 4, 2}, 2, 3), unfold_case({1, 4, 4, 2}, 2, 2, {.stride = 2}),
              unfold_case({1, 5, 4, 1}, 2, 1, {.stride = 3}), unfold_case({1, 3, 3, 2}, 3, 3, {.padding = 1}),
              unfold_case({1, 2, 3, 1}, 2, 2, {.stride = 2, .padding = 3}), unfold_case({0, 2, 2, 1}, 1, 1),
              unfold_case({2, 17, 15, 3}, 3, 3, {.stride = 2, .padding = 1}),
              unfold_case({1, 4, 3, 129}, 2, 2, {.padding = 1})},
    .errors = {unfold_error("unfold: the kernel must lie within the image 3 x 4 with padding 1 on each side, got 6 x 2",
                            {1, 3, 4, 1}, 6, 2, {.padding = 1}),
               unfold_error("unfold: stride must be positive and padding not negative, got stride 0, padding -1",
                            {1, 3, 4, 1}, 2, 2, {.stride = 0, .padding = -1}),
               unfold_error("unfold: x must be [B, H, W, C], got [1, 3, 4, 5, 1]", {1, 3, 4, 5, 1}, 2, 2)},
});

const RegisterOp kPatchEmbedding({
    .name = "patch_embedding",
    .cases = {patch_case({2, 4, 2, 2}, {3, 2, 2, 2}), patch_case({1, 2, 3, 1}, {2, 1, 1, 1})},
    .errors = {patch_error("patch_embedding: weight must be [O, C, P, P] with a P that divides the image 4 x 6, got "
                           "[5, 3, 4, 4]",
                           {5, 3, 4, 4}),
               patch_error("patch_embedding: weight must be [O, C, P, P] with a P that divides the image 4 x 6, got "
                           "[5, 3, 2, 1]",
                           {5, 3, 2, 1}),
               patch_error("patch_embedding: weight must be f32 [5, 3, 2, 2] on cpu (x is f32 [1, 4, 6, 3] on cpu), "
                           "got f32 [5, 1, 2, 2] on cpu",
                           {5, 1, 2, 2})},
});

// The image is 1 x 3 pixels, the kernel is 3 x 2, and the padding is 1. The middle row of the padded image is
// 0 1 2 3 0, so there are four windows. Their other rows are 0.
TEST(Conv2d, CONV_1_CONV_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 1, 3, 1}, {1, 2, 3})},
                  .y = {0, 0, 0, 1, 0, 0,  //
                        0, 0, 1, 2, 0, 0,  //
                        0, 0, 2, 3, 0, 0,  //
                        0, 0, 3, 0, 0, 0},
                  .dy = {9, 9, 9, 1, 9, 9,  //
                         9, 9, 2, 3, 9, 9,  //
                         9, 9, 4, 5, 9, 9,  //
                         9, 9, 6, 9, 9, 9},
                  .gradients = {{3, 7, 11}},
                  .shape = Shape{1, 4, 6}},
                 unfold_of(3, 2, {.padding = 1}));
}

// The image is one patch. The first channel of its token is the sum of all eight values. For the second channel, the
// weights are 0 to 3 in the first channel of the image, and 4 to 7 in its second channel; the bias is 1000.
TEST(Conv2d, CONV_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 2, 2, 2}, {1, 10, 2, 20, 3, 30, 4, 40}),
                               numbers({2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1,  //
                                                      0, 1, 2, 3, 4, 5, 6, 7}),
                               numbers({2}, {0, 1000})},
                  .y = {110, 1000 + 20 + 600},
                  .shape = Shape{1, 1, 2}},
                 patches);
}

}  // namespace
}  // namespace foldgrad::testing
