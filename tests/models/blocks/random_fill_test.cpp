#include "models/blocks/random_fill.h"

#include <cmath>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// Of 4,096 values the mean lies within 4 standard errors, sqrt(variance / 4096), of 0; so does the variance of its own,
// with sqrt(2 / 4096) (normal) and sqrt(4/5 / 4096) (uniform) of it as standard error.
void expect_moments(const Parameter& p, double variance, double relative_error) {
  double sum = 0, squares = 0;
  for (double v : p.value.values<double>()) sum += v, squares += v * v;
  EXPECT_NEAR(sum / 4096, 0, 4 * std::sqrt(variance / 4096)) << p.name;
  EXPECT_NEAR(squares / 4096, variance, 4 * relative_error * variance) << p.name;
}

TEST(RandomFill, NewParametersHaveTheDistribution) {
  const Parameter uniform = uniform_parameter("u", {64, 64}, 0.5, 1, DType::f64);
  expect_moments(uniform, 0.25 / 3, std::sqrt(0.8 / 4096));
  for (double v : uniform.value.values<double>()) EXPECT_TRUE(v > -0.5 && v < 0.5);
  expect_moments(normal_parameter("n", {64, 64}, 0.1, 1, DType::f64), 0.01, std::sqrt(2. / 4096));
}

TEST(RandomFill, SeedAndNameDecide) {
  const auto values = [](const char* name, std::uint64_t seed) {
    return uniform_parameter(name, {8}, 1, seed).value.values<float>();
  };
  EXPECT_EQ(values("a", 1), values("a", 1));
  EXPECT_NE(values("a", 1), values("b", 1));
  EXPECT_NE(values("a", 1), values("a", 2));
}

}  // namespace
}  // namespace foldgrad::testing
