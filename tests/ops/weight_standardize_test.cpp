#include "ops/weight_standardize/weight_standardize.h"

#include "tests/harness/by_hand.h"

namespace foldgrad::testing {
namespace {

OpFunction standardized(WeightStandardizeOptions options = {}) {
  return [options](auto& v) { return weight_standardize(v[0], v[1], options); };
}

// Makes a case in which the variance of every second unit is below the minimum.
OpCase standardize_case(Shape shape, WeightStandardizeOptions options = {}) {
  const std::int64_t fan_in = shape.without(0).elements();
  Tensor W = randn(shape, 1, 1, 0.5);
  for (std::int64_t i = 0; i < W.size(); ++i)
    if (i / fan_in % 2 == 1) W.data<double>()[i] /= 1000 * std::sqrt(double(fan_in));
  return {.label = fmt::format("{}{}", shape, options.unbiased ? ", unbiased" : ""),
          .operands = {W, randn({shape[0]}, 2)},
          .f = standardized(options)};
}
OpError standardize_error(const char* message, const Shape& W, const Shape& g, WeightStandardizeOptions options = {}) {
  return error_of_zeros(message, {W, g}, standardized(options));
}

// The fan-ins are below and above a warp and a block of 256 threads.
const RegisterOp kWeightStandardize({
    .name = "weight_standardize",
    .cases = {standardize_case({4, 5}), standardize_case({3, 2, 2, 3}, {.unbiased = true}),
              standardize_case({3, 7}, {.unbiased = true}), standardize_case({2, 33}), standardize_case({2, 1}),
              standardize_case({0, 3}), standardize_case({3, 257}),
              standardize_case({40, 3, 3, 9}, {.unbiased = true})},
    .errors = {standardize_error("weight_standardize: W must be f32, f64 or bf16 of rank 2 or more, got f32 [4] on "
                                 "cpu",
                                 {4}, {4}),
               standardize_error(
                   "weight_standardize: g must be f32 [4] on cpu (W is f32 [4, 3] on cpu), got f32 [3] on cpu", {4, 3},
                   {3}),
               standardize_error("weight_standardize: W must have a fan-in of at least 1, got [4, 0]", {4, 0}, {4}),
               standardize_error("weight_standardize: W must have a fan-in of at least 2, got [4, 1]", {4, 1}, {4},
                                 {.unbiased = true}),
               standardize_error("weight_standardize: minimum must be positive, got 0", {4, 3}, {4}, {.minimum = 0})},
});

// Makes a case of one unit. dWhat is 1 for the first weight and 0 for the other weights.
ByHand of_unit(const std::vector<double>& unit, double g, std::vector<double> what, std::vector<double> dW, double dg) {
  const auto N = std::int64_t(unit.size());
  std::vector<double> dwhat(unit.size());
  dwhat[0] = 1;
  return {.operands = {numbers({1, N}, unit), numbers({1}, {g})},
          .y = std::move(what),
          .dy = std::move(dwhat),
          .gradients = {std::move(dW), {dg}}};
}

// mu = 5, S = 4 and s = 2, so w = (-1, 1, -1, 1) / 2. k = (3, 0, 0, 0) has the mean 3/4, and the sum of k w is -3/2.
TEST(WeightStandardize, WS_1_WS_2_WS_3_WS_4_WS_5_WorkedByHand) {
  expect_by_hand(of_unit({4, 6, 4, 6}, 3, {-1.5, 1.5, -1.5, 1.5}, {0.75, 0, -0.75, 0}, -0.5), standardized());
}

// S = 2, so the unbiased s^2 = 2 * 2 / 1 and s = 2. With two weights, w is (-1/2, 1/2) for all increasing W, so dW = 0.
TEST(WeightStandardize, WS_2_WS_4_UnbiasedByHand) {
  expect_by_hand(of_unit({1, 3}, 4, {-2, 2}, {0, 0}, -0.5), standardized({.unbiased = true}));
}

// S = 1/16 is below the minimum of 1/4, so s = 1/2 does not depend on W. k = (2, 0, 0, 0) has the mean 1/2.
TEST(WeightStandardize, WS_2_WS_4_ClampedByHand) {
  expect_by_hand(of_unit({0.125, -0.125, 0.125, -0.125}, 2, {0.5, -0.5, 0.5, -0.5}, {3, -1, -1, -1}, 0.25),
                 standardized({.minimum = 0.25}));
  // The first S, 2e-4, is above the minimum of 1e-4. The second, 2e-6, is below it, so W is divided by 0.01.
  const auto two = [](double w, double what) {
    expect_by_hand({.operands = {numbers({1, 2}, {w, -w}), numbers({1}, {1})}, .y = {what, -what}, .tolerance = 1e-15},
                   standardized());
  };
  two(0.01, std::sqrt(0.5));
  two(0.001, 0.1);
}

}  // namespace
}  // namespace foldgrad::testing
