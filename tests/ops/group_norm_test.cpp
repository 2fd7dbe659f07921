#include "ops/group_norm/group_norm.h"

#include "ops/layer_norm/layer_norm.h"
#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

struct Sizes {
  std::int64_t samples, rows, columns, groups;
};

// equal: all samples have the same number of rows. ragged: each sample has one row fewer than the sample before it, and
// the last of several samples is empty. by_row: each row is a sample.
enum class Samples { equal, ragged, by_row };
constexpr Samples kEqual = Samples::equal, kRagged = Samples::ragged, kByRow = Samples::by_row;

Segments segments_of(const Sizes& s, Samples samples) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 0; n < s.samples; ++n) {
    const bool none = samples == kRagged && s.samples > 1 && n + 1 == s.samples;
    lengths.push_back(none ? 0 : samples == kRagged ? std::max<std::int64_t>(s.rows - n, 0) : s.rows);
  }
  return Segments(lengths);
}

// Applies group_norm to v. Passes `segments` on v's device as the samples, or null if each row is a sample.
Var group_norm_of(const std::vector<Var>& v, std::int64_t groups, Samples samples, const Segments& segments,
                  double eps = 1e-5) {
  const Segments there = segments.to(v[0].device());
  return group_norm(v[0], v[1], v[2], groups, samples == kByRow ? nullptr : &there, eps);
}

OpCase group_norm_case(const Sizes& s, Samples samples) {
  const Segments segments = segments_of(s, samples);
  return {
      .label = fmt::format("{} samples of {} rows, {} channels in {} groups{}", s.samples, s.rows, s.columns, s.groups,
                           samples == kEqual    ? ""
                           : samples == kRagged ? ", ragged"
                                                : ", by row"),
      .operands = {randn({segments.rows(), s.columns}, 1, 1, 0.5), randn({s.columns}, 2), randn({s.columns}, 3)},
      .f = [=](const std::vector<Var>& v) { return group_norm_of(v, s.groups, samples, segments, /*eps=*/0.1); }};
}

void error_case(Tape& t, std::int64_t groups, std::int64_t rows, double eps) {
  const Var gamma = zeros(t, 6);
  const Segments samples({rows});
  group_norm(zeros(t, 4, 6), gamma, gamma, groups, &samples, eps);
}

const RegisterOp kGroupNorm({
    .name = "group_norm",
    .cases = {group_norm_case({2, 3, 6, 2}, kEqual), group_norm_case({2, 3, 6, 2}, kByRow),
              group_norm_case({3, 4, 6, 3}, kRagged), group_norm_case({2, 5, 4, 4}, kRagged),
              group_norm_case({3, 5, 4, 1}, kRagged), group_norm_case({1, 1, 1, 1}, kEqual),
              group_norm_case({17, 2, 2, 1}, kEqual), group_norm_case({4, 20, 33, 3}, kRagged),
              group_norm_case({9, 2, 130, 2}, kByRow), group_norm_case({3, 60, 33, 3}, kRagged),
              group_norm_case({3, 9, 64, 2}, kRagged), group_norm_case({3, 3, 600, 2}, kRagged),
              group_norm_case({1, 2, 2500, 2}, kEqual), group_norm_case({2, 3, 0, 1}, kEqual)},
    .errors = {{"group_norm: groups must divide the number of channels, 6, got 4",
                [](Tape& t) { error_case(t, 4, 4, 1e-5); }},
               {"group_norm: eps must be positive, got 0", [](Tape& t) { error_case(t, 2, 4, 0); }},
               {"group_norm: the samples must match the rows of x (f32 [4, 6] on cpu), got 3 rows on cpu",
                [](Tape& t) { error_case(t, 2, 3, 1e-5); }},
               {"group_norm: x must be f32, f64 or bf16 of rank 1 or more, got f32 [] on cpu",
                [](Tape& t) { group_norm(zeros(t), zeros(t), zeros(t), 1); }}},
    // dgamma and dbeta sum up to 119 rows.
    .f32_roundoffs = 1000,
    .bf16_roundoffs = 16,
});

// Each channel is a group. The first sample has the channels (1, 3) and (5, 5). With eps = 3, the first channel has
// mu = 2, sigma2 = 1 and rstd = 1/2, so xhat = (-1/2, 1/2). xhat is 0 in the second channel, where sigma2 = 0, and in
// the second sample, which has only one row, (9, 9).
TEST(GroupNorm, GN_1_GN_2_GN_3_WorkedByHand) {
  expect_by_hand({.operands = {numbers({3, 2}, {1, 5, 3, 5, 9, 9}), numbers({2}, {10, 0}), numbers({2}, {5, 7})},
                  .y = {0, 7, 10, 7, 5, 7}},
                 [](auto& v) {
                   return group_norm_of(v, 2, kRagged, Segments({2, 1}), /*eps=*/3);
                 });
}

// The only channel is (1, 3), with xhat = (-1/2, 1/2) as above. With dy = (1, 0) and gamma = 2, h = (2, 0), <h> = 1 and
// <h xhat> = -1/2, so dx = (2 - 1 - 1/4, 0 - 1 + 1/4) / 2.
TEST(GroupNorm, GN_4_GN_5_WorkedByHand) {
  expect_by_hand({.operands = {numbers({2, 1}, {1, 3}), numbers({1}, {2}), numbers({1}, {0})},
                  .y = {-1, 1},
                  .dy = {1, 0},
                  .gradients = {{0.375, -0.375}, {-0.5}, {1}}},
                 [](auto& v) { return group_norm_of(v, 1, kEqual, Segments({2}), /*eps=*/3); });
}

TEST(GroupNorm, GN_2_OneGroupPerRowIsLayerNorm) {
  for (Device device : devices()) {
    Tape tape;
    const Var x = tape.constant(randn({6, 40}, 1).to(device)), gamma = tape.constant(randn({40}, 2).to(device)),
              beta = tape.constant(randn({40}, 3).to(device));
    EXPECT_TRUE(close(group_norm(x, gamma, beta, 1).value(), layer_norm(x, gamma, beta).value(), 1e-13));
  }
}

// A sample's results have the same bits with and without other samples.
TEST(GroupNorm, GN_1_GN_4_OtherSamplesChangeNothing) {
  const Tensor x = randn({9, 4}, 1), dy = randn({9, 4}, 2);
  for (Device device : devices()) {
    const auto run = [&](const Tensor& in, const Tensor& up, const Segments& samples) {
      return results_of([&](auto& v) { return group_norm_of(v, 2, kEqual, samples); },
                        {in, randn({4}, 4), randn({4}, 4)}, up, DType::f64, device);
    };
    const Segments samples({2, 4, 3});
    const OpResult all = run(x, dy, samples);
    for (std::int64_t s = 0; s < samples.count(); ++s) {
      const std::int64_t begin = samples.offset(s), end = samples.offset(s + 1);
      const OpResult own = run(x.slice(begin, end), dy.slice(begin, end), Segments({end - begin}));
      EXPECT_TRUE(identical(all.y.slice(begin, end), own.y));
      EXPECT_TRUE(identical(all.grads[0].slice(begin, end), own.grads[0]));
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
