#include "ops/dyt/dyt.h"

#include <cmath>

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

std::vector<Tensor> operands(std::int64_t rows, std::int64_t columns) {
  return {randn({rows, columns}, 1), Tensor::of<double>({1}, {0.7}), randn({columns}, 2), randn({columns}, 3)};
}
OpCase dyt_case(std::int64_t rows, std::int64_t columns, bool large = false) {
  return {.label = fmt::format("{} rows of {}", rows, columns),
          .operands = operands(rows, columns),
          .f = [](const std::vector<Var>& v) { return dyt(v[0], v[1], v[2], v[3]); },
          .large = large};
}
OpCase derf_case(std::int64_t rows, std::int64_t columns, bool large = false) {
  OpCase c = dyt_case(rows, columns, large);
  c.operands.push_back(Tensor::of<double>({1}, {-0.3}));
  c.f = [](const std::vector<Var>& v) { return derf(v[0], v[1], v[4], v[2], v[3]); };
  return c;
}

// The gradients of alpha and shift sum up to 21,000 terms.
const RegisterOp kDyt({
    .name = "dyt",
    .cases = {dyt_case(3, 2), dyt_case(1, 1), dyt_case(2, 33), dyt_case(40, 3), dyt_case(70, 300, true)},
    .errors = {{"dyt: alpha must be f32 [1] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [8] on cpu",
                [](Tape& t) {
                  const Var c = t.constant(Tensor::zeros({8}, DType::f32));
                  dyt(t.constant(Tensor::zeros({2, 8}, DType::f32)), c, c, c);
                }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});
const RegisterOp kDerf({
    .name = "derf",
    .cases = {derf_case(3, 2), derf_case(1, 1), derf_case(2, 33), derf_case(40, 3), derf_case(70, 300, true)},
    .errors =
        {{"derf: shift must be f32 [1] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [8] on cpu",
          [](Tape& t) {
            const Var c = t.constant(Tensor::zeros({8}, DType::f32));
            derf(t.constant(Tensor::zeros({2, 8}, DType::f32)), t.constant(Tensor::zeros({1}, DType::f32)), c, c, c);
          }},
         {"derf: gamma must be f32 [8] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [1] on cpu",
          [](Tape& t) {
            const Var one = t.constant(Tensor::zeros({1}, DType::f32));
            derf(t.constant(Tensor::zeros({2, 8}, DType::f32)), one, one, one, one);
          }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

double grad(Tape& tape, const Var& v) { return tape.grad(v).to(Device::cpu).item(); }

// tanh(ln(3) / 2) = (3 - 1) / (3 + 1) = 1/2, so t' = 3/4. With gamma = 4, beta = 5, dy = 1: h = 4.
TEST(Dyt, DYT_1_DYT_2_DYT_3_DYT_4_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const double a = std::log(3.0) / 4;
    const auto one = [&](double v) { return tape.variable(Tensor::of<double>({1}, {v}, device)); };
    const Var x = one(2), alpha = one(a), gamma = one(4), beta = one(5), y = dyt(x, alpha, gamma, beta);
    EXPECT_NEAR(y.value().to(Device::cpu).item(), 7, 1e-14);
    tape.backward(y);
    EXPECT_NEAR(grad(tape, x), 3 * a, 1e-14);
    EXPECT_NEAR(grad(tape, alpha), 6, 1e-14);
    EXPECT_NEAR(grad(tape, gamma), 0.5, 1e-14);
    EXPECT_NEAR(grad(tape, beta), 1, 1e-14);
  }
}

// erf(1/2) = 0.5204998778130465, and its derivative there (2/sqrt(pi)) e^(-1/4) = 0.8787825789354448.
TEST(Dyt, DERF_1_DERF_2_DYT_2_DYT_4_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const auto one = [&](double v) { return tape.variable(Tensor::of<double>({1}, {v}, device)); };
    const Var x = one(2), alpha = one(0.5), shift = one(-0.5), gamma = one(4), beta = one(5);
    const Var y = derf(x, alpha, shift, gamma, beta);
    EXPECT_NEAR(y.value().to(Device::cpu).item(), 4 * 0.5204998778130465 + 5, 1e-14);
    tape.backward(y);
    EXPECT_NEAR(grad(tape, x), 2 * 0.8787825789354448, 1e-14);
    EXPECT_NEAR(grad(tape, alpha), 8 * 0.8787825789354448, 1e-14);
    EXPECT_NEAR(grad(tape, shift), 4 * 0.8787825789354448, 1e-14);
    EXPECT_NEAR(grad(tape, gamma), 0.5204998778130465, 1e-14);
  }
}

}  // namespace
}  // namespace foldgrad::testing
