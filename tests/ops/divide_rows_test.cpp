#include "ops/divide_rows/divide_rows.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/row_cases.h"

namespace foldgrad::testing {
namespace {

// Makes a case with divisors close to 3, away from 0.
OpCase divide_rows_case(const Shape& n, double eps = 0.1) {
  return {.label = fmt::format("{}, eps {}", n, eps),
          .operands = {randn(n, 1), randn(n.without(-1), 2, 0.3, 3)},
          .f = [eps](const std::vector<Var>& v) { return divide_rows(v[0], v[1], eps); }};
}

const RegisterOp kDivideRows({
    .name = "divide_rows",
    .cases = row_cases(
        [](auto rows, auto columns) {
          return divide_rows_case({rows, columns});
        },
        {divide_rows_case({2, 3, 4}), divide_rows_case({5}), divide_rows_case({3, 1}, 0)}),
    .errors = {{"divide_rows: d must be f32 [2] on cpu (n is f32 [2, 8] on cpu), got f32 [8] on cpu",
                [](Tape& t) { divide_rows(zeros(t, 2, 8), zeros(t, 8), 1); }},
               {"divide_rows: n must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { divide_rows(zeros(t), zeros(t), 1); }},
               {"divide_rows: eps must not be negative, got -1",
                [](Tape& t) { divide_rows(zeros(t, 2, 8), zeros(t, 2), -1); }}},
    .bf16_roundoffs = 16,
});

// With eps, the divisors are 3 and 4. dd = -(dy . y) / divisor is -(2 - 6) / 3 in the first row and -(3 + 8) / 4 in the
// second.
TEST(DivideRows, DIV_1_DIV_2_DIV_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2}, {6, -9, 4, 8}), numbers({2}, {2.5, 3.5})},
                  .y = {2, -3, 1, 2},
                  .dy = {1, 2, 3, 4},
                  .gradients = {{1 / 3., 2 / 3., 0.75, 1}, {4 / 3., -2.75}},
                  .tolerance = 1e-15},
                 [](auto& v) { return divide_rows(v[0], v[1], /*eps=*/0.5); });
}

TEST(DivideRows, DIV_1_DIV_2_DIV_3_DividesByEpsWhereDIsZero) {
  expect_by_hand({.operands = {numbers({1, 2}, {0, 1}), numbers({1}, {0})},
                  .y = {0, 4},
                  .dy = {1, 1},
                  .gradients = {{4, 4}, {-16}}},
                 [](auto& v) { return divide_rows(v[0], v[1], /*eps=*/0.25); });
}

}  // namespace
}  // namespace foldgrad::testing
