#include "ops/watch_channels/watch_channels.h"

#include "ops/rbn_penalty/rbn_penalty.h"
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

Var watched(const Var& y, const Tensor& offset, std::shared_ptr<ChannelRecord> record) {
  return watch_channels(y, offset.to(y.dtype() == DType::f64 ? DType::f64 : DType::f32).to(y.device()),
                        std::move(record));
}

OpCase watch_case(Shape y) {
  const Tensor offset = randn({y[-1]}, 2);
  return random_case({y}, [offset](auto& v) { return watched(v[0], offset, std::make_shared<ChannelRecord>()); });
}

const RegisterOp kWatchChannels({
    .name = "watch_channels",
    .cases = {watch_case({2, 3, 5}), watch_case({70, 33}), watch_case({4})},
    .errors = {{"watch_channels: offset must be f32 [2] on cpu (y is f32 [3, 2] on cpu), got f32 [3] on cpu",
                [](Tape& t) {
                  watch_channels(zeros(t, 3, 2), Tensor::zeros({3}, DType::f32), std::make_shared<ChannelRecord>());
                }}},
});

// The sums of dy (y - offset) over the rows are 5 (1 - 1) + 7 (3 - 1) = 14 and 6 (2 + 1) + 8 (4 + 1) = 58. dy passes
// unchanged.
TEST(WatchChannels, SumsByHand) {
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      Tape tape;
      const Var x = tape.variable(Tensor::of<float>({2, 2}, {1, 2, 3, 4}).to(dtype).to(device));
      const auto record = std::make_shared<ChannelRecord>();
      const Var y = watched(x, Tensor::of<float>({2}, {1, -1}), record);
      EXPECT_TRUE(identical(y.value(), x.value()));
      const Tensor dy = Tensor::of<float>({2, 2}, {5, 6, 7, 8}).to(dtype).to(device);
      tape.backward(y, dy.clone());
      EXPECT_EQ(record->gradient_sum.to(DType::f64).values<double>(), (std::vector<double>{14, 58}));
      EXPECT_TRUE(identical(tape.grad(x), dy));
    }
}

ChannelNormState rbn_state(std::int64_t C, DType dtype, Device device) {
  return ChannelNormState::create(ChannelNormOptions::rbn(), C, dtype == DType::f64 ? DType::f64 : DType::f32, device);
}

// Makes a case in which the variances of the channels are above 2 or below 0.2. The penalty has a kink where a variance
// equals the running variance, here 1.
OpCase penalty_case(const std::string& label, double scale, std::int64_t rows, std::int64_t columns) {
  return {.label = label, .operands = {randn({rows, columns}, 1, scale, 0.3)}, .f = [=](const std::vector<Var>& v) {
            const ChannelNormState state = rbn_state(columns, v[0].dtype(), v[0].device());
            return rbn_penalty(v[0], state, 0.7, 0.2);
          }};
}

const RegisterOp kRbnPenalty({
    .name = "rbn_penalty",
    .cases = {penalty_case("wide", 2, 8, 3), penalty_case("narrow", 0.4, 8, 3), penalty_case("130 rows", 2, 130, 33)},
    .errors = {{"rbn_penalty: state.run_mean must be f32 [3] on cpu (x is f32 [2, 3] on cpu), got nothing",
                [](Tape& t) {
                  const ChannelNormState un = ChannelNormState::create(ChannelNormOptions::un(), 3, DType::f32);
                  rbn_penalty(zeros(t, 2, 3), un, 1, 1);
                }}},
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// x = (1, 3) has m = 2 and v = 1. The running mean is 0 and the running variance is 1/2, so the penalty is 3 * 4 + 5 /
// 2 and dx = (2 * 3 * 2 + 2 * 5 (x - 2)) / 2.
TEST(RbnPenalty, RBN_2_RBN_3_WorkedByHand) {
  for (Device device : devices()) {
    const ChannelNormState state = rbn_state(1, DType::f64, device);
    set(state.run_var, 0.5);
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({2, 1}, {1, 3}, device));
    const Var y = rbn_penalty(x, state, 3, 5);
    EXPECT_EQ(y.value().item(), 14.5);
    set(state.run_var, 7);  // no effect: backward uses the running values of the forward pass
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
