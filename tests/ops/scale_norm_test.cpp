#include "ops/scale_norm/scale_norm.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

// With a large eps some rows are below the clamp.
OpCase scale_norm_case(std::int64_t rows, std::int64_t columns, double eps = 1e-5, bool large = false) {
  return {.label = fmt::format("{} rows of {}, eps {}", rows, columns, eps),
          .operands = {randn({rows, columns}, 1, 1, 0.5), randn({1}, 2, 1, 3)},
          .f = [eps](const std::vector<Var>& v) { return scale_norm(v[0], v[1], eps); },
          .large = large};
}
OpCase unit_rows_case(std::int64_t rows, std::int64_t columns, double eps = 1e-12, bool large = false) {
  return {.label = fmt::format("{} rows of {}, eps {}", rows, columns, eps),
          .operands = {randn({rows, columns}, 1, 1, 0.5)},
          .f = [eps](const std::vector<Var>& v) { return unit_rows(v[0], eps); },
          .large = large};
}

const RegisterOp kScaleNorm({
    .name = "scale_norm",
    .cases = {scale_norm_case(3, 2), scale_norm_case(2, 31), scale_norm_case(2, 33), scale_norm_case(20, 3),
              scale_norm_case(8, 4, 2.5), scale_norm_case(1, 255, 1e-5, true), scale_norm_case(1, 257, 1e-5, true),
              scale_norm_case(20, 20, 1e-5, true),
              // Rows in the registers of a warp or a block, in packs or not, and longer ones.
              scale_norm_case(3, 512, 1e-5, true), scale_norm_case(5, 136, 1e-5, true),
              scale_norm_case(2, 1032, 1e-5, true), scale_norm_case(1, 2051, 1e-5, true),
              scale_norm_case(1, 4104, 1e-5, true), scale_norm_case(1, 16392, 1e-5, true)},
    .errors = {{"scale_norm: g must be f32 [1] on cpu, to go with x, which is f32 [2, 8] on cpu, got f32 [8] on cpu",
                [](Tape& t) {
                  scale_norm(t.constant(Tensor::zeros({2, 8}, DType::f32)), t.constant(Tensor::zeros({8}, DType::f32)));
                }},
               {"scale_norm: x must be f32, f64 or bf16 with at least 1 axes, got f32 [] on cpu",
                [](Tape& t) {
                  const Var s = t.constant(Tensor::zeros({}, DType::f32));
                  scale_norm(s, s);
                }},
               {"scale_norm: eps must be positive, got 0",
                [](Tape& t) {
                  const Var x = t.constant(Tensor::zeros({1}, DType::f32));
                  scale_norm(x, x, 0);
                }}},
    // dg sums up to 20 rows.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

const RegisterOp kUnitRows({
    .name = "unit_rows",
    .cases = {unit_rows_case(3, 2), unit_rows_case(2, 33), unit_rows_case(8, 4, 2.5),
              unit_rows_case(2, 257, 1e-12, true), unit_rows_case(20, 20, 1e-12, true)},
    .errors = {{"unit_rows: eps must be positive, got -1",
                [](Tape& t) { unit_rows(t.constant(Tensor::zeros({1}, DType::f32)), -1); }}},
});

// x = (2, 2, 2, 2) has length 4: u = x / 4. With g = 8 and dy = (1, 0, 0, 0): dy . u = 1/2, and dx = 2 (dy - u / 2).
TEST(ScaleNorm, SN_1_SN_2_SN_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 4}, {2, 2, 2, 2}, device));
    const Var g = tape.variable(Tensor::of<double>({1}, {8}, device));
    const Var y = scale_norm(x, g);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{4, 4, 4, 4}));
    tape.backward(y, Tensor::of<double>({1, 4}, {1, 0, 0, 0}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{1.5, -0.5, -0.5, -0.5}));
    EXPECT_EQ(tape.grad(g).values<double>(), (std::vector<double>{0.5}));
  }
}

// Below the clamp of 8 the operation is g x / 8.
TEST(ScaleNorm, SN_1_SN_2_SN_3_BelowTheClamp) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 4}, {2, 2, 2, 2}, device));
    const Var g = tape.variable(Tensor::of<double>({1}, {8}, device));
    const Var y = scale_norm(x, g, /*eps=*/8);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{2, 2, 2, 2}));
    tape.backward(y, Tensor::of<double>({1, 4}, {1, 0, 0, 0}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{1, 0, 0, 0}));
    EXPECT_EQ(tape.grad(g).values<double>(), (std::vector<double>{0.25}));
  }
}

TEST(ScaleNorm, FN_1_RowsHaveLengthOneAndRowsOfZerosStay) {
  for (Device device : devices()) {
    Tape tape;
    const Tensor x = Tensor::of<double>({2, 4}, {3, 3, -3, 3, 0, 0, 0, 0}, device);
    EXPECT_EQ(unit_rows(tape.constant(x)).value().values<double>(),
              (std::vector<double>{0.5, 0.5, -0.5, 0.5, 0, 0, 0, 0}));
  }
}

}  // namespace
}  // namespace foldgrad::testing
