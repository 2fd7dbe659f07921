#include "train/tasks/classification/mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>

#include "tests/engine/error_message.h"
#include "tests/train/tasks/classification/images/counting_images.h"

namespace foldgrad::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Labels = std::vector<std::int64_t>;

// Returns the Kolmogorov-Smirnov statistic of lambda in n steps: sqrt(n) times the largest difference between its
// empirical distribution and `cdf`.
double kolmogorov(double a, int n, const std::function<double(double)>& cdf) {
  std::vector<double> lambdas;
  for (int step = 0; step < n; ++step) lambdas.push_back(draw_mix({.mixup = a}, 1, 1, 7, step).lambda);
  std::ranges::sort(lambdas);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double at = cdf(lambdas[i]);
    worst = std::max({worst, std::abs(at - double(i) / n), std::abs(at - double(i + 1) / n)});
  }
  return worst * std::sqrt(double(n));
}

// The statistic exceeds 2.2 for one seed in 8,000: its tail is at most 2 exp(-2 * 2.2^2). For a = 0.5, 1 and 2, lambda
// has the densities 1 / (pi sqrt(x (1 - x))), 1 and 6 x (1 - x).
TEST(Mix, MIX_1_LambdaIsFromTheBetaDistribution) {
  constexpr int kSteps = 20000;
  EXPECT_LT(kolmogorov(0.5, kSteps, [](double x) { return 2 / std::numbers::pi * std::asin(std::sqrt(x)); }), 2.2);
  EXPECT_LT(kolmogorov(1, kSteps, [](double x) { return x; }), 2.2);
  EXPECT_LT(kolmogorov(2, kSteps, [](double x) { return x * x * (3 - 2 * x); }), 2.2);
}

TEST(Mix, MIX_1_SmallAndLargeParametersGiveNumbers) {
  int above = 0;
  for (int step = 0; step < 100; ++step) {
    const double small = draw_mix({.mixup = 1e-4}, 1, 1, 1, step).lambda;
    EXPECT_TRUE(small >= 0 && small <= 1) << small;
    above += small > 0.5;
    // The standard deviation of lambda is 1 / sqrt(8 a + 4) = 3.5e-4.
    EXPECT_NEAR(draw_mix({.mixup = 1e6}, 1, 1, 1, step).lambda, 0.5, 5 * 3.6e-4);
  }
  EXPECT_NEAR(above, 50, 25);  // five standard deviations of 5
}

TEST(Mix, MIX_2_ByHand) {
  const Tensor images = Tensor::of<std::uint8_t>({3, 1, 1, 3}, {10, 0, 255, 1, 2, 3, 20, 100, 255});
  const MixedImages mixed = mix(images, Tensor::of<std::int64_t>({3}, {4, 5, 6}), {.lambda = 0.25});
  // 17.5 and 12.5 are rounded up.
  EXPECT_EQ(mixed.images.values<std::uint8_t>(), (Bytes{18, 75, 255, 1, 2, 3, 13, 25, 255}));
  EXPECT_EQ(mixed.labels.values<std::int64_t>(), (Labels{4, 5, 6}));
  EXPECT_EQ(mixed.others.values<std::int64_t>(), (Labels{6, 5, 4}));
  EXPECT_EQ(mixed.lambda.values<float>(), (std::vector<float>{0.25f, 0.25f, 0.25f}));
  EXPECT_EQ(images.values<std::uint8_t>()[0], 10);
}

TEST(Mix, MIX_3_ByHand) {
  Tensor images = Tensor::zeros({2, 2, 3, 3}, DType::u8);
  for (std::int64_t pixel = 0; pixel < 12; ++pixel)  // red: 1 ... 6 and 11 ... 16
    images.data<std::uint8_t>()[pixel * 3] = std::uint8_t(pixel < 6 ? pixel + 1 : pixel + 5);
  const Mix box{.lambda = 1 - 2.0 / 6, .cut = true, .top = 1, .bottom = 2, .left = 1, .right = 3};
  const MixedImages mixed = mix(images, Tensor::of<std::int64_t>({2}, {0, 1}), box);
  Bytes reds;
  for (std::int64_t pixel = 0; pixel < 12; ++pixel) reds.push_back(mixed.images.data<std::uint8_t>()[pixel * 3]);
  EXPECT_EQ(reds, (Bytes{1, 2, 3, 4, 15, 16, 11, 12, 13, 14, 5, 6}));
  EXPECT_EQ(mixed.lambda.values<float>(), (std::vector<float>{float(1 - 2.0 / 6), float(1 - 2.0 / 6)}));
}

// With a = 1, r^2 is uniform, so a box of the 4 x 4 image has l rows with a probability of (2 l + 1) / 16. Its centre
// is in each row with a probability of 1 / 4. The test counts rows and columns separately, and adds up boxes that are
// equal after clipping. It allows 5 standard deviations.
TEST(Mix, MIX_3_BoxesAreAsLikelyAsCountedOut) {
  using Side = std::pair<std::int64_t, std::int64_t>;
  const std::int64_t size = 4, steps = 6400;
  std::map<Side, double> want;
  for (std::int64_t l = 0; l < size; ++l)
    for (std::int64_t centre = 0; centre < size; ++centre) {
      const std::int64_t begin = centre - l / 2;
      want[{std::max<std::int64_t>(begin, 0), std::min(begin + l, size)}] += double(2 * l + 1) / 64;
    }
  std::map<Side, double> rows, columns;
  bool differ = false;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Mix m = draw_mix({.cutmix = 1}, size, size, 3, step);
    ASSERT_TRUE(m.cut);
    ++rows[{m.top, m.bottom}];
    ++columns[{m.left, m.right}];
    differ = differ || m.top != m.left;
    ASSERT_DOUBLE_EQ(m.lambda, 1 - double((m.bottom - m.top) * (m.right - m.left)) / 16);
  }
  EXPECT_TRUE(differ);
  ASSERT_EQ(rows.size(), want.size());
  for (const auto& [side, p] : want) {
    const double deviation = std::sqrt(p * (1 - p) * double(steps));
    EXPECT_NEAR(rows[side], p * double(steps), 5 * deviation) << side.first << " to " << side.second;
    EXPECT_NEAR(columns[side], p * double(steps), 5 * deviation) << side.first << " to " << side.second;
  }
}

TEST(Mix, BothAreAsLikelyAndNoneChangesNothing) {
  int cut = 0;
  for (int step = 0; step < 2000; ++step) cut += draw_mix({.mixup = 0.8, .cutmix = 1}, 8, 8, 1, step).cut;
  EXPECT_NEAR(cut, 1000, 112);  // five standard deviations of 22.4
  const Mix none = draw_mix({}, 8, 8, 1, 5);
  EXPECT_EQ(none.lambda, 1);
  EXPECT_FALSE(none.cut);
  const ImageSet images = counting_images(4, 3, 3, 2);
  EXPECT_EQ(mix(images.pixels, images.labels, none).images.values<std::uint8_t>(),
            images.pixels.values<std::uint8_t>());
}

TEST(Mix, FollowsSeedAndStep) {
  const MixOptions options{.mixup = 1};
  const double lambda = draw_mix(options, 8, 8, 1, 5).lambda;
  EXPECT_EQ(lambda, draw_mix(options, 8, 8, 1, 5).lambda);
  EXPECT_NE(lambda, draw_mix(options, 8, 8, 1, 6).lambda);
  EXPECT_NE(lambda, draw_mix(options, 8, 8, 2, 5).lambda);
}

TEST(Mix, ErrorsNameTheOption) {
  EXPECT_EQ(message<std::invalid_argument>([] { draw_mix({.mixup = -1}, 1, 1, 1, 1); }),
            "mix: mixup must be at least 0 and finite, got -1");
  EXPECT_EQ(
      message<std::invalid_argument>([] { draw_mix({.cutmix = std::numeric_limits<double>::infinity()}, 1, 1, 1, 1); }),
      "mix: cutmix must be at least 0 and finite, got inf");
}

}  // namespace
}  // namespace foldgrad::testing
