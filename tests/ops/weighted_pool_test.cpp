#include "ops/weighted_pool/weighted_pool.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

Var pooled(const std::vector<Var>& v) { return weighted_pool(v[0], v[1]); }
OpCase pool_case(std::int64_t B, std::int64_t T, std::int64_t C) { return random_case({{B, T, C}, {B, T}}, pooled); }
OpError pool_error(const char* message, const Shape& x, const Shape& w) {
  return error_of_zeros(message, {x, w}, pooled);
}

// The numbers of columns are below and above a chunk of 64 (CPU) and a block of 256 threads (CUDA).
const RegisterOp kWeightedPool({
    .name = "weighted_pool",
    .cases = {pool_case(2, 3, 4), pool_case(3, 1, 1), pool_case(1, 5, 7), pool_case(0, 3, 2), pool_case(2, 0, 2),
              pool_case(3, 5, 65), pool_case(2, 3, 300), pool_case(2, 40, 64)},
    .errors = {pool_error("weighted_pool: x must be f32, f64 or bf16 of rank 3 or more, got f32 [2, 3] on cpu", {2, 3},
                          {2, 3}),
               pool_error("weighted_pool: x must have 3 axes, got [1, 2, 3, 4]", {1, 2, 3, 4}, {1, 2}),
               pool_error(
                   "weighted_pool: w must be f32 [2, 3] on cpu (x is f32 [2, 3, 4] on cpu), got f32 [2, 4] on cpu",
                   {2, 3, 4}, {2, 4})},
    .f32_roundoffs = 400,  // dw sums up to 300 products
});

Var averaged(const std::vector<Var>& v) { return mean_pool(v[0]); }
OpCase mean_case(const Shape& shape) { return random_case({shape}, averaged); }
const RegisterOp kMeanPool({
    .name = "mean_pool",
    .cases = {mean_case({3, 4, 5}), mean_case({2, 1, 1}), mean_case({3, 5, 65}), mean_case({2, 3, 300}),
              mean_case({2, 3, 4}), mean_case({1, 4, 64})},
    .errors = {error_of_zeros("mean_pool: x must have 3 axes, got [1, 2, 3, 4]", {{1, 2, 3, 4}}, averaged),
               error_of_zeros("mean_pool: x must be f32, f64 or bf16 of rank 3 or more, got f32 [2, 3] on cpu",
                              {{2, 3}}, averaged)},
});

TEST(WeightedPool, WP_1_WP_2_WP_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), numbers({2, 2}, {1, 10, 0, -1})},
                  .y = {31, 42, -7, -8},
                  .dy = {1, 100, 2, 3},
                  .gradients = {{1, 100, 10, 1000, 0, 0, -2, -3}, {201, 403, 28, 38}}},
                 pooled);
}

TEST(MeanPool, RED_3_RED_4_WorkedByHand) {
  expect_by_hand(
      {.operands = {numbers({2, 2, 1}, {1, 5, 7, 8})}, .y = {3, 7.5}, .dy = {8, 6}, .gradients = {{4, 4, 3, 3}}},
      averaged);
  expect_by_hand({.operands = {numbers({1, 0, 1}, {})}, .y = {0}}, averaged);
}

// y = 1e8 - 1e8 + 1. In f32, 1e8 + 1 = 1e8, so y is 0 unless the 1 of the last step is added last.
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
