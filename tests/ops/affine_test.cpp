#include "ops/affine/affine.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpCase affine_case(std::int64_t rows, std::int64_t columns) {
  return random_case({{rows, columns}, {columns}, {columns}}, [](auto& v) { return affine(v[0], v[1], v[2]); });
}
OpCase scale_by_case(std::int64_t rows, std::int64_t columns) {
  return random_case({{rows, columns}, {1}}, [](auto& v) { return scale_by(v[0], v[1]); });
}

const RegisterOp kAffine({
    .name = "affine",
    .cases = {affine_case(3, 2), affine_case(1, 1), affine_case(2, 33), affine_case(40, 3), affine_case(70, 300),
              // On CUDA, this case needs several blocks both for the rows and for the columns.
              affine_case(100, 328)},
    .errors = {{"affine: gamma must be f32 [8] on cpu (x is f32 [8] on cpu), got f32 [1] on cpu",
                [](Tape& t) { affine(zeros(t, 8), zeros(t, 1), zeros(t, 1)); }}},
    .f32_roundoffs = 1000,  // dgamma and dbeta sum up to 100 rows
    .bf16_roundoffs = 16,
});
const RegisterOp kScaleBy({
    .name = "scale_by",
    .cases = {scale_by_case(3, 2), scale_by_case(1, 1), scale_by_case(2, 33), scale_by_case(40, 3),
              scale_by_case(70, 300)},
    .errors = {{"scale_by: eta must be f32 [1] on cpu (x is f32 [8] on cpu), got f32 [8] on cpu",
                [](Tape& t) { scale_by(zeros(t, 8), zeros(t, 8)); }}},
    .f32_roundoffs = 1000,  // the gradient of eta sums up to 21,000 products
    .bf16_roundoffs = 16,
});

TEST(Affine, AFF_1_AFF_2_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2}, {1, 2, 3, 4}), numbers({2}, {10, 100}), numbers({2}, {5, 7})},
                  .y = {15, 207, 35, 407},
                  .dy = {1, 2, 3, 4},
                  .gradients = {{10, 200, 30, 400}, {10, 20}, {4, 6}}},
                 [](auto& v) { return affine(v[0], v[1], v[2]); });
}

TEST(Affine, AFF_3_AFF_4_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2}, {1, 2, 3, 4}), numbers({1}, {10})},
                  .y = {10, 20, 30, 40},
                  .dy = {1, 0, 0, 2},
                  .gradients = {{10, 0, 0, 20}, {9}}},
                 [](auto& v) { return scale_by(v[0], v[1]); });
}

}  // namespace
}  // namespace foldgrad::testing
