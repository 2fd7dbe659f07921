#include "ops/weighted_pool/weighted_pool.h"

#include <gtest/gtest.h>

#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

OpCase pool_case(std::int64_t B, std::int64_t T, std::int64_t C, bool large = false) {
  return {.label = fmt::format("[{}, {}, {}]", B, T, C),
          .operands = {randn({B, T, C}, 1), randn({B, T}, 2)},
          .f = [](const std::vector<Var>& v) { return weighted_pool(v[0], v[1]); },
          .large = large};
}
OpError pool_error(const char* message, Shape x, Shape w) {
  return {message, [=](Tape& t) {
            weighted_pool(t.constant(Tensor::zeros(x, DType::f32)), t.constant(Tensor::zeros(w, DType::f32)));
          }};
}

// Columns around one chunk of 64 and around one block of 256 threads.
const RegisterOp kWeightedPool({
    .name = "weighted_pool",
    .cases = {pool_case(2, 3, 4), pool_case(3, 1, 1), pool_case(1, 5, 7), pool_case(0, 3, 2), pool_case(2, 0, 2),
              pool_case(3, 5, 65, true), pool_case(2, 3, 300, true), pool_case(2, 40, 64, true)},
    .errors = {pool_error("weighted_pool: x must be f32, f64 or bf16 with at least 3 axes, got f32 [2, 3] on cpu",
                          {2, 3}, {2, 3}),
               pool_error("weighted_pool: x must have 3 axes, got [1, 2, 3, 4]", {1, 2, 3, 4}, {1, 2}),
               pool_error("weighted_pool: w must be f32 [2, 3] on cpu, to go with x, which is f32 [2, 3, 4] on cpu, "
                          "got f32 [2, 4] on cpu",
                          {2, 3, 4}, {2, 4})},
    .f32_roundoffs = 400,  // sums of 300 products
});

TEST(WeightedPool, WP_1_WP_2_WP_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, device));
    const Var w = tape.variable(Tensor::of<double>({2, 2}, {1, 10, 0, -1}, device));
    const Var y = weighted_pool(x, w);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{31, 42, -7, -8}));
    tape.backward(y, Tensor::of<double>({2, 2}, {1, 100, 2, 3}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{1, 100, 10, 1000, 0, 0, -2, -3}));
    EXPECT_EQ(tape.grad(w).values<double>(), (std::vector<double>{201, 403, 28, 38}));
  }
}

// 1e8 + 1 is 1e8 in f32: the sum tells in which order the steps came.
TEST(WeightedPool, WP_1_SumsInTheOrderOfSteps) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.constant(Tensor::of<float>({1, 3, 1}, {1e8f, 1e8f, 1}, device));
    const Var y = weighted_pool(x, tape.constant(Tensor::of<float>({1, 3}, {1, -1, 1}, device)));
    EXPECT_EQ(y.value().values<float>(), (std::vector<float>{1}));
  }
}

}  // namespace
}  // namespace foldgrad::testing
