#include "engine/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace foldgrad {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
const double kLeastResult = std::exp(double{-87.33f});  // smallest result of exp and sigmoid that is not 0

// Returns |got - want| in units in the last place of a float near `want`.
double ulps(float got, double want) {
  if (std::fabs(want) >= 3.4028235677973366e38) return double(got) == std::copysign(INFINITY, want) ? 0 : INFINITY;
  const int exponent = want == 0 ? -126 : std::max(std::ilogb(want), -126);
  return std::fabs(double(got) - want) / std::ldexp(1.0, exponent - 23);
}

struct Function {
  const char* name;
  float (*fast)(float);
  double (*exact)(double);
  double tolerance = 2.5;  // in units in the last place
  bool subnormals = true;  // false if results below e^-87.33 are 0
};
const std::vector<Function> kFunctions = {
    {"exp", fast_exp, std::exp, 2.5, false},
    {"exp of -|x|", [](float x) { return fast_exp_nonpositive(-std::fabs(x)); },
     [](double x) { return std::exp(-std::fabs(x)); }, 2.5, false},
    {"tanh", fast_tanh, std::tanh},
    {"erf", fast_erf, std::erf, 4.5},
    {"sigmoid", fast_sigmoid, [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); },
     3.5, false},
};

// Checks each function at all arguments x for which for_all(visit) calls visit(x).
template <class ForAll>
void expect_close(const ForAll& for_all) {
  for (const Function& f : kFunctions) {
    double worst = 0;
    float where = 0;
    for_all([&](float x) {
      const double want = f.exact(x);
      const double error = ulps(f.fast(x), !f.subnormals && want < kLeastResult ? 0 : want);
      if (!(error <= worst)) worst = error, where = x;
    });
    EXPECT_LE(worst, f.tolerance) << f.name << " at " << where;
  }
}

// The arguments are 4,001 bit patterns apart, beginning with the smallest subnormal. So every binade has about 2,100
// arguments of either sign.
TEST(VectorMath, FloatIsCloseOverTheWholeRange) {
  expect_close([](const auto& visit) {
    for (std::uint32_t bits = 1; bits < 0x7f800000u; bits += 4001)
      visit(std::bit_cast<float>(bits)), visit(-std::bit_cast<float>(bits));
  });
}

// The grid covers the arguments at which a function bends, reaches its limit or would become subnormal, and those at
// which its formula changes.
TEST(VectorMath, FloatIsCloseOnADenseGrid) {
  expect_close([](const auto& visit) {
    for (double x = -106; x < 106; x += 1.0 / 4099) visit(float(x));
  });
}

// Returns gelu_tanh(x) / x. Computing it as a sigmoid keeps small results accurate.
double tanh_cdf(double x) { return 1 / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }

TEST(VectorMath, DistributionFunctionsAreWithinTheirAbsoluteError) {
  for (double d = -12; d < 12; d += 1.0 / 8209) {
    const float x = float(d);
    EXPECT_LE(std::fabs(fast_normal_cdf(x) - 0.5 * std::erfc(-double(x) * 0.70710678118654752)), 2e-7) << x;
    EXPECT_LE(std::fabs(fast_tanh_cdf(x) - tanh_cdf(x)), 2e-7) << x;
  }
}

TEST(VectorMath, DistributionFunctionsRiseFromZeroToOne) {
  for (float (*f)(float) :
       {static_cast<float (*)(float)>(fast_normal_cdf), static_cast<float (*)(float)>(fast_tanh_cdf)}) {
    for (const float x : {6.0f, 200.0f, 1e30f, std::numeric_limits<float>::max(), kInfinity}) {
      EXPECT_EQ(f(x), 1.0f);
      EXPECT_EQ(f(-x), 0.0f);
    }
    EXPECT_EQ(f(0.0f), 0.5f);
    EXPECT_TRUE(std::isnan(f(kNaN)));
  }
}

TEST(VectorMath, LimitsAndZeros) {
  for (const float x : {200.0f, 1e30f, std::numeric_limits<float>::max(), kInfinity}) {
    EXPECT_EQ(fast_exp(x), kInfinity);
    EXPECT_EQ(fast_exp(-x), 0.0f);
    EXPECT_EQ(fast_exp_nonpositive(-x), 0.0f);
    EXPECT_EQ(fast_tanh(x), 1.0f);
    EXPECT_EQ(fast_tanh(-x), -1.0f);
    EXPECT_EQ(fast_erf(x), 1.0f);
    EXPECT_EQ(fast_erf(-x), -1.0f);
    EXPECT_EQ(fast_sigmoid(x), 1.0f);
    EXPECT_EQ(fast_sigmoid(-x), 0.0f);
  }
  for (const float zero : {0.0f, -0.0f}) {
    EXPECT_EQ(fast_exp(zero), 1.0f);
    EXPECT_EQ(fast_exp_nonpositive(zero), 1.0f);
    EXPECT_EQ(fast_sigmoid(zero), 0.5f);
    EXPECT_EQ(std::signbit(fast_tanh(zero)), std::signbit(zero));
    EXPECT_EQ(std::signbit(fast_erf(zero)), std::signbit(zero));
  }
}

TEST(VectorMath, NaNStaysNaN) {
  for (const Function& f : kFunctions) {
    EXPECT_TRUE(std::isnan(f.fast(kNaN))) << f.name;
    EXPECT_TRUE(std::isnan(f.fast(-kNaN))) << f.name;
  }
}

TEST(VectorMath, ExpAndSigmoidReturnNoSubnormalNumber) {
  for (const float x : {-87.32f, -87.33f, -87.34f, -88.0f, -100.0f, -103.9f}) {
    const bool is_zero = x < -87.33f;
    for (const float y : {fast_exp(x), fast_exp_nonpositive(x), fast_sigmoid(x)})
      EXPECT_EQ(std::fpclassify(y), is_zero ? FP_ZERO : FP_NORMAL) << x;
  }
}

TEST(VectorMath, NothingExceedsItsBounds) {
  for (float x = -20; x < 20; x += 1.0f / 1024) {
    EXPECT_LE(std::fabs(fast_tanh(x)), 1.0f) << x;
    EXPECT_LE(std::fabs(fast_erf(x)), 1.0f) << x;
    EXPECT_LE(fast_sigmoid(x), 1.0f) << x;
  }
}

TEST(VectorMath, DoubleIsTheStandardLibrarys) {
  for (const double x : {-800.0, -1.5, -1e-300, 0.0, 0.3, 2.0, 40.0}) {
    EXPECT_EQ(fast_exp(x), std::exp(x));
    EXPECT_EQ(fast_exp_nonpositive(x), std::exp(x));
    EXPECT_EQ(fast_tanh(x), std::tanh(x));
    EXPECT_EQ(fast_erf(x), std::erf(x));
  }
  EXPECT_EQ(fast_normal_cdf(1.5), 0.5 + 0.5 * std::erf(1.5 * 0.70710678118654752));
  EXPECT_NEAR(fast_tanh_cdf(1.5), tanh_cdf(1.5), 1e-15);
  EXPECT_EQ(fast_sigmoid(0.0), 0.5);
  EXPECT_DOUBLE_EQ(fast_sigmoid(2.0), 0.88079707797788243);
  EXPECT_EQ(fast_sigmoid(-700.0), std::exp(-700.0));
}

}  // namespace
}  // namespace foldgrad
