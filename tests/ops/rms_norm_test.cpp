#include "ops/rms_norm/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

OpCase rms_norm_case(std::int64_t rows, std::int64_t columns, bool large = false) {
  return {.label = fmt::format("{} rows of {}", rows, columns),
          .operands = {randn({rows, columns}, 1, 1, 0.5), randn({columns}, 2)},
          .f = [](const std::vector<Var>& v) { return rms_norm(v[0], v[1]); },
          .large = large};
}

OpCase variant_case(std::int64_t rows, std::int64_t columns, const RmsNormOptions& o, bool large = false) {
  OpCase c = rms_norm_case(rows, columns, large);
  c.label =
      fmt::format("{}, eps {} {}, mean over {}", c.label, o.eps, o.eps_outside ? "outside" : "inside", o.channels);
  c.f = [o](const std::vector<Var>& v) { return rms_norm(v[0], v[1], o); };
  return c;
}

// Columns around one warp and around one block of 256 threads; enough rows for two blocks of rows on the CPU.
const RegisterOp kRmsNorm({
    .name = "rms_norm",
    .cases = {rms_norm_case(3, 2), rms_norm_case(1, 1), rms_norm_case(2, 31), rms_norm_case(2, 32),
              rms_norm_case(2, 33), rms_norm_case(40, 3), rms_norm_case(1, 255, true), rms_norm_case(1, 257, true),
              rms_norm_case(70, 300, true), rms_norm_case(0, 8), rms_norm_case(3, 512, true),
              variant_case(3, 5, {.eps = 0.25, .eps_outside = true}),
              variant_case(3, 40, {.eps = 0.25, .channels = 33}),
              variant_case(2, 7, {.eps = 0.25, .eps_outside = true, .channels = 1}),
              variant_case(2, 300, {.eps = 0.25, .eps_outside = true, .channels = 257}, true),
              // Where one form of the CUDA kernels ends: packs in a warp, in a block, none.
              rms_norm_case(5, 136, true), variant_case(2, 1032, {.eps = 0.25, .channels = 1001}, true),
              rms_norm_case(1, 2051, true), rms_norm_case(1, 4104, true), rms_norm_case(1, 16392, true)},
    .errors = {{"rms_norm: gamma must be f32 [8] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [4] on cpu",
                [](Tape& t) {
                  rms_norm(t.constant(Tensor::zeros({2, 8}, DType::f32)), t.constant(Tensor::zeros({4}, DType::f32)));
                }},
               {"rms_norm: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) {
                  const Var s = t.constant(Tensor::zeros({}, DType::f32));
                  rms_norm(s, s);
                }},
               {"rms_norm: eps must be positive, got 0",
                [](Tape& t) {
                  const Var x = t.constant(Tensor::zeros({8}, DType::f32));
                  rms_norm(x, x, 0);
                }},
               {"rms_norm: the mean must be over at most 8 channels, got 9",
                [](Tape& t) {
                  const Var x = t.constant(Tensor::zeros({8}, DType::f32));
                  rms_norm(x, x, {.channels = 9});
                }}},
    // dgamma sums up to 70 rows.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// More rows than there are warps at once. Of sums of 2,100 terms below 10 none is off by more than 2100^2 10 2^-53.
TEST(RmsNorm, SumsOverManyRows) {
  const OpCase c = rms_norm_case(2100, 8, true);
  const OpResult want = run_case(c, DType::f64, Device::cpu);
  for (Device device : devices()) {
    const OpResult got = run_case(c, DType::f64, device);
    for (std::size_t k = 0; k < want.grads.size(); ++k)
      EXPECT_TRUE(close(got.grads[k], want.grads[k], 5e-9)) << "operand " << k;
  }
}

// x = (1, 5): the mean square is 13, and eps = 3 makes rrms = 1 / sqrt(16), so xhat = (1/4, 5/4).
TEST(RmsNorm, RMS_1_RMS_2_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var y = rms_norm(tape.constant(Tensor::of<double>({1, 2}, {1, 5}, device)),
                           tape.constant(Tensor::of<double>({2}, {8, 4}, device)), /*eps=*/3);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{2, 5}));
  }
}

// With dy = (1, 0), gamma = (8, 4): g = (8, 0), <g xhat> = 1, so dx = (8 - 1/4, 0 - 5/4) / 4.
TEST(RmsNorm, RMS_3_RMS_4_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 2}, {1, 5}, device));
    const Var gamma = tape.variable(Tensor::of<double>({2}, {8, 4}, device));
    tape.backward(rms_norm(x, gamma, /*eps=*/3), Tensor::of<double>({1, 2}, {1, 0}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{1.9375, -0.3125}));
    EXPECT_EQ(tape.grad(gamma).values<double>(), (std::vector<double>{0.25, 0}));
  }
}

// x = (1, 1), eps = 1 outside: R = 1, rrms = 1/2, xhat = (1/2, 1/2), w = (1 + 1) / 2 = 1. With dy = (1, 0),
// gamma = (8, 4): g = (8, 0), their sum g xhat = 4, so dx = (8 - 2, 0 - 2) / 2.
TEST(RmsNorm, RMS_5_RMS_6_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 2}, {1, 1}, device));
    const Var gamma = tape.variable(Tensor::of<double>({2}, {8, 4}, device));
    const Var y = rms_norm(x, gamma, {.eps = 1, .eps_outside = true});
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{4, 2}));
    tape.backward(y, Tensor::of<double>({1, 2}, {1, 0}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{3, -1}));
    EXPECT_EQ(tape.grad(gamma).values<double>(), (std::vector<double>{0.5, 0}));
  }
}

// x / (R + eps) has the derivative 1 / eps at x = 0, where the authors' code gives NaN.
TEST(RmsNorm, RMS_6_RowOfZeros) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::zeros({1, 2}, DType::f64, device));
    const Var gamma = tape.constant(Tensor::of<double>({2}, {3, 5}, device));
    const Var y = rms_norm(x, gamma, {.eps = 0.5, .eps_outside = true});
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{0, 0}));
    tape.backward(y, Tensor::of<double>({1, 2}, {1, 1}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{6, 10}));
  }
}

// The mean over the first of two channels: x = (3, 8), eps = 7: rrms = 1/4, xhat = (3/4, 2). With dy = (1, 1),
// gamma = (4, 1): the sum of g xhat is 3 + 2, so dx = (4 - 15/4, 1) / 4.
TEST(RmsNorm, RMS_1_RMS_3_PartialWorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 2}, {3, 8}, device));
    const Var gamma = tape.constant(Tensor::of<double>({2}, {4, 1}, device));
    const Var y = rms_norm(x, gamma, {.eps = 7, .channels = 1});
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{3, 2}));
    tape.backward(y, Tensor::of<double>({1, 2}, {1, 1}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{0.0625, 0.25}));
  }
}

// Where eps is negligible the length of a row is too: y(s x) = y(x), and the gradient of a row is orthogonal to it.
RC_GTEST_PROP(RmsNorm, RMS_1_RMS_3_ScaleOfARowChangesNothing, ()) {
  const auto columns = *rc::gen::inRange<std::int64_t>(1, 70);
  const auto seed = *rc::gen::inRange(0u, 1000u);
  const double scale = *rc::gen::element(1e-3, 0.5, 3.0, 1e6);
  const Tensor x = randn({2, columns}, seed), gamma = randn({columns}, seed + 1);
  Tensor scaled = x.clone();
  for (std::int64_t i = 0; i < x.size(); ++i) scaled.data<double>()[i] *= scale;
  Tape tape;
  const Var xv = tape.variable(x), one = tape.constant(gamma);
  const Var y = rms_norm(xv, one, 1e-30);
  RC_ASSERT(close(rms_norm(tape.constant(scaled), one, 1e-30).value(), y.value(), 1e-12));
  tape.backward(y, randn({2, columns}, seed + 2));
  for (std::int64_t r = 0; r < 2; ++r) {
    double product = 0, size = 0;
    for (std::int64_t i = r * columns; i < (r + 1) * columns; ++i) {
      product += x.data<double>()[i] * tape.grad(xv).data<double>()[i];
      size += std::abs(x.data<double>()[i] * tape.grad(xv).data<double>()[i]);
    }
    RC_ASSERT(std::abs(product) <= 1e-11 * (1 + size));
  }
}

}  // namespace
}  // namespace foldgrad::testing
