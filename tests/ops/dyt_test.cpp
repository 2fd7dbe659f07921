#include "ops/dyt/dyt.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpCase dyt_case(std::int64_t rows, std::int64_t columns) {
  return {.operands = {randn({rows, columns}, 1), numbers({1}, {0.7}), randn({columns}, 2), randn({columns}, 3)},
          .f = [](auto& v) { return dyt(v[0], v[1], v[2], v[3]); }};
}
OpCase derf_case(std::int64_t rows, std::int64_t columns) {
  OpCase c = dyt_case(rows, columns);
  c.operands.push_back(Tensor::of<double>({1}, {-0.3}));
  c.f = [](auto& v) { return derf(v[0], v[1], v[4], v[2], v[3]); };
  return c;
}

// The gradients of alpha and shift are sums of up to 21,000 terms.
const RegisterOp kDyt({
    .name = "dyt",
    .cases = {dyt_case(3, 2), dyt_case(1, 1), dyt_case(2, 33), dyt_case(40, 3), dyt_case(70, 300), dyt_case(2, 0)},
    .errors = {{"dyt: alpha must be f32 [1] on cpu (x is f32 [2, 8] on cpu), got f32 [8] on cpu",
                [](Tape& t) { dyt(zeros(t, 2, 8), zeros(t, 8), zeros(t, 8), zeros(t, 8)); }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});
const RegisterOp kDerf({
    .name = "derf",
    .cases = {derf_case(3, 2), derf_case(1, 1), derf_case(2, 33), derf_case(40, 3), derf_case(70, 300),
              derf_case(2, 0)},
    .errors = {{"derf: shift must be f32 [1] on cpu (x is f32 [2, 8] on cpu), got f32 [8] on cpu",
                [](Tape& t) { derf(zeros(t, 2, 8), zeros(t, 1), zeros(t, 8), zeros(t, 8), zeros(t, 8)); }},
               {"derf: gamma must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [1] on cpu",
                [](Tape& t) { derf(zeros(t, 2, 8), zeros(t, 1), zeros(t, 1), zeros(t, 1), zeros(t, 1)); }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// tanh(ln(3) / 2) = (3 - 1) / (3 + 1) = 1/2, so t' = 3/4. With gamma = 4, beta = 5 and dy = 1, h = 4.
TEST(Dyt, DYT_1_DYT_2_DYT_3_DYT_4_WorkedByHand) {
  const double a = std::log(3.0) / 4;
  expect_by_hand({.operands = {numbers({1}, {2}), numbers({1}, {a}), numbers({1}, {4}), numbers({1}, {5})},
                  .y = {7},
                  .dy = {1},
                  .gradients = {{3 * a}, {6}, {0.5}, {1}},
                  .tolerance = 1e-14},
                 [](auto& v) { return dyt(v[0], v[1], v[2], v[3]); });
}

// erf(1/2) = 0.5204998778130465, and its derivative at 1/2 is (2/sqrt(pi)) e^(-1/4) = 0.8787825789354448.
TEST(Dyt, DERF_1_DERF_2_DYT_2_DYT_4_WorkedByHand) {
  const double t = 0.5204998778130465, slope = 0.8787825789354448;
  expect_by_hand(
      {.operands = {numbers({1}, {2}), numbers({1}, {0.5}), numbers({1}, {-0.5}), numbers({1}, {4}), numbers({1}, {5})},
       .y = {4 * t + 5},
       .dy = {1},
       .gradients = {{2 * slope}, {8 * slope}, {4 * slope}, {t}, {1}},
       .tolerance = 1e-14},
      [](auto& v) { return derf(v[0], v[1], v[2], v[3], v[4]); });
}

}  // namespace
}  // namespace foldgrad::testing
