#include "ops/layer_norm/layer_norm.h"

#include "tests/harness/by_hand.h"
#include "tests/harness/row_cases.h"

namespace foldgrad::testing {
namespace {

OpCase layer_norm_case(std::int64_t rows, std::int64_t columns, double mean = 0) {
  return {.label = fmt::format("{} rows of {} around {}", rows, columns, mean),
          // gamma is random, too: if its entries were equal, a backward pass that mixes them up would seem correct.
          .operands = {randn({rows, columns}, /*seed=*/1, /*scale=*/1, mean), randn({columns}, 2), randn({columns}, 3)},
          .f = [](auto& v) { return layer_norm(v[0], v[1], v[2]); }};
}

const RegisterOp kLayerNorm({
    .name = "layer_norm",
    .cases = row_cases([](auto rows, auto columns) { return layer_norm_case(rows, columns); },
                       {layer_norm_case(1, 1), layer_norm_case(2, 5, 3.0)}),
    .errors = {{"layer_norm: gamma must be f32 [8] on cpu (x is f32 [2, 8] on cpu), got f32 [4] on cpu",
                [](Tape& t) { layer_norm(zeros(t, 2, 8), zeros(t, 4), zeros(t, 8)); }},
               {"layer_norm: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { layer_norm(zeros(t), zeros(t), zeros(t)); }},
               {"layer_norm: eps must be positive, got 0",
                [](Tape& t) { layer_norm(zeros(t, 8), zeros(t, 8), zeros(t, 8), 0); }}},
    // dgamma and dbeta are sums over up to 70 rows (row_cases()), so they accumulate rounding errors.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// x = (1, 3) has mu = 2 and sigma2 = 1, and eps = 3 makes rstd = 1 / sqrt(4), so xhat = (-1/2, 1/2). With dy = (1, 0)
// and gamma = (2, 1), h = (2, 0), <h> = 1 and <h xhat> = -1/2, so dx = (2 - 1 - 1/4, 0 - 1 + 1/4) / 2.
TEST(LayerNorm, LN_1_LN_2_LN_3_LN_4_LN_5_WorkedByHand) {
  expect_by_hand({.operands = {numbers({1, 2}, {1, 3}), numbers({2}, {2, 1}), numbers({2}, {5, 7})},
                  .y = {4, 7.5},
                  .dy = {1, 0},
                  .gradients = {{0.375, -0.375}, {-0.5, 0}, {1, 0}}},
                 [](auto& v) { return layer_norm(v[0], v[1], v[2], /*eps=*/3); });
}

// There are more rows than the 2,048 warps of row_sums_kernel, so some warps add two rows. The error of a sum of 2,100
// terms below 10 is at most 2100^2 10 2^-53.
TEST(LayerNorm, LN_5_SumsOverManyRows) {
  for (std::int64_t columns : {3, 8}) {
    const OpCase c = layer_norm_case(2100, columns);
    const OpResult want = run_case(c, DType::f64, Device::cpu);
    for (Device device : devices()) {
      const OpResult got = run_case(c, DType::f64, device);
      for (std::size_t k = 0; k < want.grads.size(); ++k)
        EXPECT_TRUE(close(got.grads[k], want.grads[k], 5e-9)) << "operand " << k << ", " << columns << " columns";
    }
  }
}

// In f32, E[x^2] - E[x]^2 would lose a variance of 1 at a mean of 1e4, since the squares are 1e8. The mean of
// (x - mu)^2, in a second step, keeps it.
TEST(LayerNorm, LN_1_RowsFarFromZeroKeepTheirVariance) {
  const Tensor x = randn({4, 300}, /*seed=*/7, /*scale=*/1, /*mean=*/1e4).to(DType::f32);
  const auto normalized = [](const Tensor& rows) {
    Tape tape;
    const Var one = tape.constant(Tensor::full({300}, 1, rows.dtype(), rows.device())),
              zero = tape.constant(Tensor::zeros({300}, rows.dtype(), rows.device()));
    return layer_norm(tape.constant(rows), one, zero).value();
  };
  // Neighbouring f32 numbers differ by 1e-3 at 1e4. mu comes from a sum of 300 such values, so its error can be a few
  // times 1e-3.
  for (Device device : devices()) EXPECT_TRUE(close(normalized(x.to(device)), normalized(x.to(DType::f64)), 4e-3));
}

}  // namespace
}  // namespace foldgrad::testing
