#include "ops/scale_norm/scale_norm.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/row_cases.h"

namespace foldgrad::testing {
namespace {

// Rows whose length is below eps are divided by eps instead of their length. With eps = 2.5, there are such rows.
OpCase scale_norm_case(std::int64_t rows, std::int64_t columns, double eps = 1e-5) {
  return {.label = fmt::format("{} rows of {}, eps {}", rows, columns, eps),
          .operands = {randn({rows, columns}, 1, 1, 0.5), randn({1}, 2, 1, 3)},
          .f = [eps](const std::vector<Var>& v) { return scale_norm(v[0], v[1], eps); }};
}
OpCase unit_rows_case(std::int64_t rows, std::int64_t columns, double eps = 1e-12) {
  return {.label = fmt::format("{} rows of {}, eps {}", rows, columns, eps),
          .operands = {randn({rows, columns}, 1, 1, 0.5)},
          .f = [eps](const std::vector<Var>& v) { return unit_rows(v[0], eps); }};
}

const RegisterOp kScaleNorm({
    .name = "scale_norm",
    .cases = row_cases([](auto rows, auto columns) { return scale_norm_case(rows, columns); },
                       {scale_norm_case(1, 1), scale_norm_case(8, 4, 2.5)}),
    .errors = {{"scale_norm: g must be f32 [1] on cpu (x is f32 [2, 8] on cpu), got f32 [8] on cpu",
                [](Tape& t) { scale_norm(zeros(t, 2, 8), zeros(t, 8)); }},
               {"scale_norm: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { scale_norm(zeros(t), zeros(t)); }},
               {"scale_norm: eps must be positive, got 0", [](Tape& t) { scale_norm(zeros(t, 1), zeros(t, 1), 0); }}},
    // dg sums over up to 70 rows (row_cases()).
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

const RegisterOp kUnitRows({
    .name = "unit_rows",
    .cases = {unit_rows_case(3, 2), unit_rows_case(2, 33), unit_rows_case(8, 4, 2.5), unit_rows_case(2, 257),
              unit_rows_case(20, 20)},
    .errors = {{"unit_rows: eps must be positive, got -1", [](Tape& t) { unit_rows(zeros(t, 1), -1); }}},
});

// x = (2, 2, 2, 2) has length 4, so u = x / 4. With g = 8 and dy = (1, 0, 0, 0), dy . u = 1/2 and dx = 2 (dy - u / 2).
TEST(ScaleNorm, SN_1_SN_2_SN_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 4}, {2, 2, 2, 2}), numbers({1}, {8})},
                  .y = {4, 4, 4, 4},
                  .dy = {1, 0, 0, 0},
                  .gradients = {{1.5, -0.5, -0.5, -0.5}, {0.5}}},
                 [](auto& v) { return scale_norm(v[0], v[1]); });
}

// x has length 4. This is less than eps = 8, so y = g x / 8.
TEST(ScaleNorm, SN_1_SN_2_SN_3_BelowTheClamp) {
  expect_by_hand({.operands = {numbers({1, 4}, {2, 2, 2, 2}), numbers({1}, {8})},
                  .y = {2, 2, 2, 2},
                  .dy = {1, 0, 0, 0},
                  .gradients = {{1, 0, 0, 0}, {0.25}}},
                 [](auto& v) { return scale_norm(v[0], v[1], /*eps=*/8); });
}

TEST(ScaleNorm, FN_1_RowsHaveLengthOneAndRowsOfZerosStay) {
  expect_by_hand({.operands = {numbers({2, 4}, {3, 3, -3, 3, 0, 0, 0, 0})}, .y = {0.5, 0.5, -0.5, 0.5, 0, 0, 0, 0}},
                 [](auto& v) { return unit_rows(v[0]); });
}

}  // namespace
}  // namespace foldgrad::testing
