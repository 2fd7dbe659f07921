#include "ops/affine/affine.h"

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

OpCase affine_case(std::int64_t rows, std::int64_t columns, bool large = false) {
  return {.label = fmt::format("{} rows of {}", rows, columns),
          .operands = {randn({rows, columns}, 1), randn({columns}, 2), randn({columns}, 3)},
          .f = [](const std::vector<Var>& v) { return affine(v[0], v[1], v[2]); },
          .large = large};
}
OpCase scale_by_case(std::int64_t rows, std::int64_t columns, bool large = false) {
  return {.label = fmt::format("{} rows of {}", rows, columns),
          .operands = {randn({rows, columns}, 1), randn({1}, 2)},
          .f = [](const std::vector<Var>& v) { return scale_by(v[0], v[1]); },
          .large = large};
}

const RegisterOp kAffine({
    .name = "affine",
    .cases = {affine_case(3, 2), affine_case(1, 1), affine_case(2, 33), affine_case(40, 3), affine_case(70, 300, true),
              // Several blocks of rows and of columns on CUDA.
              affine_case(100, 328, true)},
    .errors = {{"affine: gamma must be f32 [8] on cpu, to go with x, which is f32 [8] on cpu, got f32 [1] on cpu",
                [](Tape& t) {
                  const Var one = t.constant(Tensor::zeros({1}, DType::f32));
                  affine(t.constant(Tensor::zeros({8}, DType::f32)), one, one);
                }}},
    .f32_roundoffs = 1000,  // sums of 70 rows
    .bf16_roundoffs = 16,
});
const RegisterOp kScaleBy({
    .name = "scale_by",
    .cases = {scale_by_case(3, 2), scale_by_case(1, 1), scale_by_case(2, 33), scale_by_case(40, 3),
              scale_by_case(70, 300, true)},
    .errors = {{"scale_by: eta must be f32 [1] on cpu, to go with x, which is f32 [8] on cpu, got f32 [8] on cpu",
                [](Tape& t) {
                  const Var x = t.constant(Tensor::zeros({8}, DType::f32));
                  scale_by(x, x);
                }}},
    .f32_roundoffs = 1000,  // a sum of 21,000 products
    .bf16_roundoffs = 16,
});

TEST(Affine, AFF_1_AFF_2_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 2}, {1, 2, 3, 4}, device));
    const Var gamma = tape.variable(Tensor::of<double>({2}, {10, 100}, device));
    const Var beta = tape.variable(Tensor::of<double>({2}, {5, 7}, device));
    const Var y = affine(x, gamma, beta);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{15, 207, 35, 407}));
    tape.backward(y, Tensor::of<double>({2, 2}, {1, 2, 3, 4}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{10, 200, 30, 400}));
    EXPECT_EQ(tape.grad(gamma).values<double>(), (std::vector<double>{10, 20}));
    EXPECT_EQ(tape.grad(beta).values<double>(), (std::vector<double>{4, 6}));
  }
}

TEST(Affine, AFF_3_AFF_4_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 2}, {1, 2, 3, 4}, device));
    const Var eta = tape.variable(Tensor::of<double>({1}, {10}, device));
    const Var y = scale_by(x, eta);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{10, 20, 30, 40}));
    tape.backward(y, Tensor::of<double>({2, 2}, {1, 0, 0, 2}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{10, 0, 0, 20}));
    EXPECT_EQ(tape.grad(eta).values<double>(), (std::vector<double>{9}));
  }
}

}  // namespace
}  // namespace foldgrad::testing
