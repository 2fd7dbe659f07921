#include "ops/rms_norm/rms_norm.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/row_cases.h"

namespace foldgrad::testing {
namespace {

OpCase rms_norm_case(std::int64_t rows, std::int64_t columns) {
  return {.label = fmt::format("{} rows of {}", rows, columns),
          .operands = {randn({rows, columns}, 1, 1, 0.5), randn({columns}, 2)},
          .f = [](auto& v) { return rms_norm(v[0], v[1]); }};
}

OpCase variant_case(std::int64_t rows, std::int64_t columns, const RmsNormOptions& o) {
  OpCase c = rms_norm_case(rows, columns);
  c.label =
      fmt::format("{}, eps {} {}, mean over {}", c.label, o.eps, o.eps_outside ? "outside" : "inside", o.channels);
  c.f = [o](const std::vector<Var>& v) { return rms_norm(v[0], v[1], o); };
  return c;
}

const RegisterOp kRmsNorm({
    .name = "rms_norm",
    .cases = row_cases(rms_norm_case, {rms_norm_case(1, 1), variant_case(3, 5, {.eps = 0.25, .eps_outside = true}),
                                       variant_case(3, 40, {.eps = 0.25, .channels = 33}),
                                       variant_case(2, 7, {.eps = 0.25, .eps_outside = true, .channels = 1}),
                                       variant_case(2, 300, {.eps = 0.25, .eps_outside = true, .channels = 257}),
                                       variant_case(2, 1032, {.eps = 0.25, .channels = 1001})}),
    .errors = {{"rms_norm: gamma must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu",
                [](Tape& t) { rms_norm(zeros(t, 2, 8), zeros(t, 4)); }},
               {"rms_norm: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { rms_norm(zeros(t), zeros(t)); }},
               {"rms_norm: eps must be positive, got 0", [](Tape& t) { rms_norm(zeros(t, 8), zeros(t, 8), 0); }},
               {"rms_norm: the mean must be over at most 8 channels, got 9",
                [](Tape& t) { rms_norm(zeros(t, 8), zeros(t, 8), {.channels = 9}); }}},
    // dgamma sums over up to 70 rows (row_cases()).
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// x = (1, 5) has the mean square 13, and eps = 3 makes rrms = 1 / sqrt(16), so xhat = (1/4, 5/4). With dy = (1, 0) and
// gamma = (8, 4), h = (8, 0) and <h xhat> = 1, so dx = (8 - 1/4, 0 - 5/4) / 4.
TEST(RmsNorm, RMS_1_RMS_2_RMS_3_RMS_4_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 2}, {1, 5}), numbers({2}, {8, 4})},
                  .y = {2, 5},
                  .dy = {1, 0},
                  .gradients = {{1.9375, -0.3125}, {0.25, 0}}},
                 [](auto& v) { return rms_norm(v[0], v[1], /*eps=*/3); });
}

// For x = (1, 1), with eps = 1 outside the root, R = 1, rrms = 1/2, xhat = (1/2, 1/2) and w = (1 + 1) / 2 = 1. With
// dy = (1, 0) and gamma = (8, 4), h = (8, 0) and the sum of h xhat is 4, so dx = (8 - 2, 0 - 2) / 2.
TEST(RmsNorm, RMS_5_RMS_6_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 2}, {1, 1}), numbers({2}, {8, 4})},
                  .y = {4, 2},
                  .dy = {1, 0},
                  .gradients = {{3, -1}, {0.5, 0}}},
                 [](auto& v) { return rms_norm(v[0], v[1], {.eps = 1, .eps_outside = true}); });
}

// At x = 0, the derivative of x / (R + eps) is 1 / eps, so dx = dy gamma / eps. The authors' code gives NaN there.
TEST(RmsNorm, RMS_6_RowOfZeros) {
  expect_by_hand(
      {.operands = {numbers({1, 2}, {0, 0}), numbers({2}, {3, 5})}, .y = {0, 0}, .dy = {1, 1}, .gradients = {{6, 10}}},
      [](auto& v) { return rms_norm(v[0], v[1], {.eps = 0.5, .eps_outside = true}); });
}

// The mean is only over the first of the two channels. x = (3, 8) and eps = 7 give rrms = 1/4 and xhat = (3/4, 2). With
// dy = (1, 1) and gamma = (4, 1), the sum of h xhat is 3 + 2, so dx = (4 - 15/4, 1) / 4.
TEST(RmsNorm, RMS_1_RMS_3_PartialWorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 2}, {3, 8}), numbers({2}, {4, 1})},
                  .y = {3, 2},
                  .dy = {1, 1},
                  .gradients = {{0.0625, 0.25}}},
                 [](auto& v) { return rms_norm(v[0], v[1], {.eps = 7, .channels = 1}); });
}

}  // namespace
}  // namespace foldgrad::testing
