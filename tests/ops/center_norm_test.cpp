#include "ops/center_norm/center_norm.h"

#include "ops/linear/linear.h"
#include "tests/harness/by_hand.h"
#include "tests/harness/row_cases.h"

namespace foldgrad::testing {
namespace {

OpCase center_norm_case(std::int64_t rows, std::int64_t columns) {
  return {.operands = {randn({rows, columns}, 1, 1, 2), randn({columns}, 2), randn({columns}, 3)},
          .f = [](auto& v) { return center_norm(v[0], v[1], v[2]); }};
}

const RegisterOp kCenterNorm({
    .name = "center_norm",
    .cases = row_cases(center_norm_case),
    .errors = {{"center_norm: x must have at least 2 channels, got f32 [8, 1] on cpu",
                [](Tape& t) { center_norm(zeros(t, 8, 1), zeros(t, 1), zeros(t, 1)); }},
               {"center_norm: beta must be f32 [8] on cpu (x is f32 [8] on cpu), got f64 [8] on cpu",
                [](Tape& t) { center_norm(zeros(t, 8), zeros(t, 8), zeros(t, {8}, DType::f64)); }}},
    // dgamma and dbeta are sums of up to 70 rows.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// x = (1, 3) has mu = 2 and k = 2, so z = (-2, 2). With dy = (1, 0) and gamma = (2, 1), h = (2, 0), and
// dx = 2 (2 - 1, 0 - 1).
TEST(CenterNorm, CEN_1_CEN_2_CEN_3_CEN_4_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 2}, {1, 3}), numbers({2}, {2, 1}), numbers({2}, {5, 7})},
                  .y = {1, 9},
                  .dy = {1, 0},
                  .gradients = {{2, -2}, {-2, 0}, {1, 0}}},
                 [](auto& v) { return center_norm(v[0], v[1], v[2]); });
}

// Without beta, the operation is a product with the matrix k diag(gamma) (I - 1 1^T / C).
TEST(CenterNorm, CEN_1_CEN_2_IsAMatrix) {
  const std::int64_t C = 5;
  const Tensor gamma = randn({C}, 1), beta = randn({C}, 2), matrix = Tensor::empty({C, C}, DType::f64);
  for (std::int64_t i = 0; i < C; ++i)
    for (std::int64_t j = 0; j < C; ++j)
      matrix.data<double>()[i * C + j] = 1.25 * gamma.data<double>()[i] * ((i == j) - 0.2);
  Tape tape;
  const Var x = tape.constant(randn({7, C}, 3)), b = tape.constant(beta);
  EXPECT_TRUE(
      close(center_norm(x, tape.constant(gamma), b).value(), linear(x, tape.constant(matrix), b).value(), 1e-14));
}

}  // namespace
}  // namespace foldgrad::testing
