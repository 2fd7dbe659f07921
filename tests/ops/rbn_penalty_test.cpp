#include "ops/rbn_penalty/rbn_penalty.h"

#include <cmath>

#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

ChannelNormState rbn_state(std::int64_t C, DType dtype, Device device) {
  return ChannelNormState::create(ChannelNormOptions::rbn(), C, dtype == DType::f64 ? DType::f64 : DType::f32, device);
}

// The variances are around 1.4 and 0.3, off the kink at the running value 1.
OpCase penalty_case(const std::string& label, double scale, std::int64_t rows, std::int64_t columns,
                    bool large = false) {
  return {.label = label,
          .operands = {randn({rows, columns}, 1, scale, 0.3)},
          .f =
              [=](const std::vector<Var>& v) {
                const ChannelNormState state = rbn_state(columns, v[0].dtype(), v[0].device());
                return rbn_penalty(v[0], state, 0.7, 0.2);
              },
          .large = large};
}

const RegisterOp kRbnPenalty({
    .name = "rbn_penalty",
    .cases = {penalty_case("wide", 2, 8, 3), penalty_case("narrow", 0.4, 8, 3),
              penalty_case("130 rows", 2, 130, 33, true)},
    .errors = {{"rbn_penalty: state.run_mean must be f32 [3] on cpu, to go with x, which is f32 [2, 3] on cpu, got "
                "nothing",
                [](Tape& t) {
                  const ChannelNormState un = ChannelNormState::create(ChannelNormOptions::un(), 3, DType::f32);
                  rbn_penalty(t.constant(Tensor::zeros({2, 3}, DType::f32)), un, 1, 1);
                }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// x = (1, 3): m = 2, v = 1, against 0 and 1/2: 3 * 4 + 5 / 2. dx = (2 * 3 * 2 + 2 * 5 (x - 2)) / 2.
TEST(RbnPenalty, RBN_2_RBN_3_WorkedByHand) {
  for (Device device : devices()) {
    const ChannelNormState state = rbn_state(1, DType::f64, device);
    set(state.run_var, 0.5);
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 1}, {1, 3}, device));
    const Var y = rbn_penalty(x, state, 3, 5);
    EXPECT_EQ(y.value().item(), 14.5);
    set(state.run_var, 7);  // the running values of the forward count
    tape.backward(y);
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{1, 11}));
  }
}

TEST(RbnPenalty, RBN_2_NoRowCostsNothing) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::zeros({0, 1}, DType::f64, device));
    const Var y = rbn_penalty(x, rbn_state(1, DType::f64, device), 3, 5);
    EXPECT_EQ(y.value().item(), 0);
    tape.backward(y);
    EXPECT_EQ(tape.grad(x).size(), 0);
  }
}

}  // namespace
}  // namespace foldgrad::testing
