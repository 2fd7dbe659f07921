#include "ops/group_norm/group_norm.h"

#include "ops/layer_norm/layer_norm.h"
#include "tests/harness/op_spec.h"

namespace foldgrad::testing {
namespace {

struct Sizes {
  std::int64_t samples, positions, columns, groups;
};

// One position in three is masked out, and all of the first sample where there are several.
Tensor mask_for(const Sizes& s) {
  const Tensor mask = Tensor::empty({s.samples, s.positions}, DType::u8);
  for (std::int64_t i = 0; i < mask.size(); ++i)
    mask.data<std::uint8_t>()[i] = i % 3 != 1 && (s.samples == 1 || i >= s.positions);
  return mask;
}

OpCase group_norm_case(const Sizes& s, GroupAxes axes, bool masked = false, bool large = false) {
  std::vector<Tensor> operands{randn({s.samples, s.positions, s.columns}, 1, 1, 0.5), randn({s.columns}, 2),
                               randn({s.columns}, 3)};
  if (masked) operands.push_back(mask_for(s));
  return {.label = fmt::format("{} samples of {} positions, {} channels in {} groups, {}{}", s.samples, s.positions,
                               s.columns, s.groups, axes == GroupAxes::sample ? "sample" : "token",
                               masked ? ", masked" : ""),
          .operands = operands,
          .f =
              [groups = s.groups, axes, masked](const std::vector<Var>& v) {
                return group_norm(v[0], v[1], v[2], groups, axes, masked ? &v[3].value() : nullptr, /*eps=*/0.1);
              },
          .large = large};
}

constexpr GroupAxes kSample = GroupAxes::sample, kToken = GroupAxes::token;

void error_case(Tape& t, std::int64_t groups, const Tensor* mask, double eps) {
  const Var gamma = t.constant(Tensor::zeros({6}, DType::f32));
  group_norm(t.constant(Tensor::zeros({2, 3, 6}, DType::f32)), gamma, gamma, groups, kSample, mask, eps);
}

const RegisterOp kGroupNorm({
    .name = "group_norm",
    .cases = {group_norm_case({2, 3, 6, 2}, kSample), group_norm_case({2, 3, 6, 2}, kToken),
              group_norm_case({3, 4, 6, 3}, kSample, true), group_norm_case({2, 5, 4, 4}, kSample, true),
              group_norm_case({2, 5, 4, 1}, kSample, true), group_norm_case({1, 1, 1, 1}, kSample),
              group_norm_case({17, 2, 2, 1}, kSample), group_norm_case({3, 20, 33, 3}, kSample, true, true),
              group_norm_case({9, 2, 130, 2}, kToken, false, true),
              group_norm_case({2, 60, 33, 3}, kSample, true, true), group_norm_case({2, 9, 64, 2}, kSample, true, true),
              group_norm_case({2, 3, 600, 2}, kSample, true, true),
              group_norm_case({1, 2, 2500, 2}, kSample, true, true),
              group_norm_case({2, 3, 0, 1}, kSample, false, true)},
    .errors = {{"group_norm: groups must divide 6 channels, got 4", [](Tape& t) { error_case(t, 4, nullptr, 1e-5); }},
               {"group_norm: eps must be positive, got 0", [](Tape& t) { error_case(t, 2, nullptr, 0); }},
               {"group_norm: mask must be u8 [2, 3] on cpu, to go with x, which is f32 [2, 3, 6] on cpu, got u8 [3, 2] "
                "on cpu",
                [](Tape& t) {
                  const Tensor mask = Tensor::zeros({3, 2}, DType::u8);
                  error_case(t, 2, &mask, 1e-5);
                }},
               {"group_norm: x must be f32, f64 or bf16 with at least 2 axes, got f32 [6] on cpu",
                [](Tape& t) {
                  const Var x = t.constant(Tensor::zeros({6}, DType::f32));
                  group_norm(x, x, x, 1, kToken);
                }}},
    // dgamma and dbeta sum up to 60 positions.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// Channels apart: (1, 3) and (5, 5), masked out (9, 9). With eps = 3 the first has mu = 2, sigma2 = 1, rstd = 1/2; the
// second mu = 5, sigma2 = 0.
TEST(GroupNorm, GN_1_GN_2_GN_3_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Tensor mask = Tensor::of<std::uint8_t>({1, 3}, {1, 1, 0}, device);
    const Var y = group_norm(tape.constant(Tensor::of<double>({1, 3, 2}, {1, 5, 3, 5, 9, 9}, device)),
                             tape.constant(Tensor::of<double>({2}, {10, 0}, device)),
                             tape.constant(Tensor::of<double>({2}, {5, 7}, device)), 2, kSample, &mask, /*eps=*/3);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{0, 7, 10, 7, 40, 7}));
  }
}

// One channel (1, 3) as above. With dy = (1, 0), gamma = 2: h = (2, 0), <h> = 1, <h xhat> = -1/2, so
// dx = (2 - 1 - 1/4, 0 - 1 + 1/4) / 2.
TEST(GroupNorm, GN_4_GN_5_WorkedByHand) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.variable(Tensor::of<double>({1, 2, 1}, {1, 3}, device));
    const Var gamma = tape.variable(Tensor::of<double>({1}, {2}, device));
    const Var beta = tape.variable(Tensor::of<double>({1}, {0}, device));
    tape.backward(group_norm(x, gamma, beta, 1, kSample, nullptr, /*eps=*/3),
                  Tensor::of<double>({1, 2, 1}, {1, 0}, device));
    EXPECT_EQ(tape.grad(x).values<double>(), (std::vector<double>{0.375, -0.375}));
    EXPECT_EQ(tape.grad(gamma).values<double>(), (std::vector<double>{-0.5}));
    EXPECT_EQ(tape.grad(beta).values<double>(), (std::vector<double>{1}));
  }
}

TEST(GroupNorm, GN_2_OneGroupPerTokenIsLayerNorm) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.constant(randn({2, 3, 40}, 1).to(device)), gamma = tape.constant(randn({40}, 2).to(device)),
              beta = tape.constant(randn({40}, 3).to(device));
    EXPECT_TRUE(close(group_norm(x, gamma, beta, 1, kToken).value(), layer_norm(x, gamma, beta).value(), 1e-13));
  }
}

// x, and x with positions appended that the mask excludes and that get no dy: everything real stays as it was.
TEST(GroupNorm, GN_1_GN_4_PaddingChangesNothing) {
  const Tensor x = randn({2, 3, 4}, 1), padded = randn({2, 5, 4}, 2, 100), dy = randn({2, 3, 4}, 3),
               padded_dy = Tensor::zeros({2, 5, 4}, DType::f64), mask = Tensor::zeros({2, 5}, DType::u8);
  for (std::int64_t s = 0; s < 2; ++s) {
    std::copy_n(x.data<double>() + s * 12, 12, padded.data<double>() + s * 20);
    std::copy_n(dy.data<double>() + s * 12, 12, padded_dy.data<double>() + s * 20);
    std::fill_n(mask.data<std::uint8_t>() + s * 5, 3, 1);
  }
  for (Device device : devices()) {
    const auto run = [&](const Tensor& in, const Tensor& up, const Tensor* real) {
      Tape tape;
      const Var v = tape.variable(in.to(device)), gamma = tape.constant(randn({4}, 4).to(device));
      const Var y = group_norm(v, gamma, gamma, 2, kSample, real);
      tape.backward(y, up.to(device));
      return std::pair{y.value().to(Device::cpu), tape.grad(v).to(Device::cpu)};
    };
    const Tensor real = mask.to(device);
    const auto [y, dx] = run(x, dy, nullptr);
    const auto [padded_y, padded_dx] = run(padded, padded_dy, &real);
    for (std::int64_t s = 0; s < 2; ++s) {
      EXPECT_TRUE(
          close(padded_y.slice(s, s + 1).reshape({5, 4}).slice(0, 3), y.slice(s, s + 1).reshape({3, 4}), 1e-13));
      EXPECT_TRUE(
          close(padded_dx.slice(s, s + 1).reshape({5, 4}).slice(0, 3), dx.slice(s, s + 1).reshape({3, 4}), 1e-13));
      EXPECT_EQ(padded_dx.slice(s, s + 1).reshape({5, 4}).slice(3, 5).values<double>(), std::vector<double>(8, 0.0));
    }
  }
}

TEST(GroupNorm, GN_2_SampleWithoutRealPositionsGivesBeta) {
  for (Device device : devices()) {
    Tape tape;
    const Tensor mask = Tensor::zeros({1, 3}, DType::u8, device);
    const Var x = tape.variable(randn({1, 3, 2}, 1).to(device));
    const Var y = group_norm(x, tape.constant(randn({2}, 2).to(device)),
                             tape.constant(Tensor::of<double>({2}, {5, 7}, device)), 1, kSample, &mask);
    EXPECT_EQ(y.value().values<double>(), (std::vector<double>{5, 7, 5, 7, 5, 7}));
    tape.backward(y, randn({1, 3, 2}, 3).to(device));
    EXPECT_EQ(tape.grad(x).values<double>(), std::vector<double>(6, 0.0));
  }
}

}  // namespace
}  // namespace foldgrad::testing
