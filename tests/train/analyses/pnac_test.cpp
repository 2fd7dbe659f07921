// Tests statistics of recordings: normality in windows, moving means, and outstanding channels.
#include "train/analyses/pnac.h"

#include <cmath>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// scipy.stats.normaltest of SciPy 1.17.1 computed k2 and p for these samples. They are printed with repr().
TEST(Normality, IsThatOfSciPy) {
  std::vector<double> cubes, waves;
  for (int i = 0; i < 20; ++i) cubes.push_back((i * 7 % 20) * (i * 7 % 20) / 16.0);
  for (int i = 0; i < 150; ++i) waves.push_back(std::round(std::exp(std::sin(i * 1.7)) * 1e4) / 1e4);
  const std::vector<double> outlier = {1.0,     0.5403,  -0.6536, -0.9111, -0.9577, 9.0,    -0.128, 0.3006,
                                       0.3919,  0.7767,  0.8623,  -0.0487, 0.8711,  0.7985, 0.3425, 0.3673,
                                       -0.0398, 0.9996,  -0.9147, -0.9602, -0.5253, 0.3837, 0.9811, 0.3507,
                                       -0.4638, -0.9844, -0.8485, 0.9887,  0.1718,  0.5843, 0.0662, 0.9469};
  const struct {
    std::vector<double> sample;
    double k2, p;
  } rows[] = {{{0.0, 2.524, 2.728, 0.423, -2.27, -2.877, -0.838, 1.971}, 1.1755676734566332, 0.5555571267654453},
              {cubes, 2.5965136546761878, 0.273007277310323},
              {outlier, 60.97632890302592, 5.74325917894722e-14},
              {waves, 90.86251134397426, 1.8597576581026227e-20}};
  for (const auto& [sample, k2, p] : rows) {
    const Normality got = normality_of(sample);
    EXPECT_NEAR(got.k2, k2, 1e-12 * k2) << sample.size();
    // p = exp(-k2/2), so its relative error is k2/2 times the relative error of k2.
    EXPECT_NEAR(got.p, p, 1e-12 * p * (1 + k2)) << sample.size();
  }
  EXPECT_TRUE(std::isnan(normality_of(std::vector<double>(9, 2.0)).p));
  EXPECT_EQ(message<std::invalid_argument>([] { normality_of(std::vector<double>(7)); }),
            "a normality test needs at least 8 values, got 7");
}

// In SciPy, 94 % to 95 % of 4,000 channels of pure noise pass the test, for each of these window lengths.
TEST(Pnac, OfNoiseIsThatOfTheTestItself) {
  for (const std::int64_t window : {20, 32, 50, 150}) {
    const std::vector<double> noise = pnac_of_noise(window + 1, 4000, window);
    ASSERT_EQ(noise.size(), 2u);
    // The tolerance is three standard deviations plus the rounding of SciPy's percentages.
    for (const double percent : noise) EXPECT_NEAR(percent, 94.5, 1.5) << window;
    EXPECT_EQ(noise, pnac_of_noise(window + 1, 4000, window));
  }
}

TEST(Pnac, CountsTheChannelsThatPassInEveryWindow) {
  constexpr std::int64_t kRows = 40, kChannels = 4, kWindow = 20;
  std::vector<float> values(kRows * kChannels);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto place = float((r * 7) % 20);  // every window contains each of the places 0 to 19 once
    values[r * kChannels] = place * place;   // passes: p = 0.27
    values[r * kChannels + 1] = place + (r == 5 ? 500.f : 0.f);  // fails in windows with row 5
    values[r * kChannels + 2] = 1;                               // always fails: it is constant
    values[r * kChannels + 3] = r == 39 ? NAN : place * place;   // fails in the last window
  }
  const std::vector<double> got = pnac(values, kChannels, kWindow);
  ASSERT_EQ(got.size(), 21u);
  for (std::size_t w = 0; w < got.size(); ++w) {
    const int passed = 1 + (w > 5) + (w < 20);
    EXPECT_EQ(got[w], 25.0 * passed) << w;
  }
  EXPECT_EQ(message<std::invalid_argument>([&] { pnac(values, kChannels, 41); }),
            "--window must be at most 40, the number of recorded iterations, got 41");
  EXPECT_EQ(message<std::invalid_argument>([&] { pnac(values, kChannels, 7); }),
            "--window must be at least 8, the smallest sample of the normality test, got 7");
}

TEST(MovingMeans, OfTheLastValues) {
  const MovingMeans m = moving_means({1, 4, 16, 4, 0}, 2);
  EXPECT_EQ(m.arithmetic, (std::vector<double>{2.5, 10, 10, 2}));
  ASSERT_EQ(m.geometric.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(m.geometric[i], (std::vector<double>{2, 8, 8, 0})[i], 1e-14);
  EXPECT_TRUE(std::isnan(moving_means({-1, 1}, 2).geometric[0]));
  const std::vector<double> two{1, 2};
  EXPECT_EQ(message<std::invalid_argument>([&] { moving_means(two, 3); }),
            "--window must be in [1, 2], where the upper limit is the number of recorded iterations, got 3");
}

// Channel 0 has a single zero, and channel 3 has only zeros. Neither may stand out.
TEST(MovingMeans, ChannelsWithAZeroStandOutInNothing) {
  const SiteRecording site{.site = "norm", .channels = 4, .q = {0, 2, 1, 0, 5, 2, 4, 0, 5, 3, 9, 0}};
  EXPECT_EQ(outstanding_channels(site, 2), (std::pair<std::int64_t, std::int64_t>{1, 2}));
  const SiteRecording zeros{.site = "norm", .channels = 2, .q = {0, 0, 0, 0}};
  EXPECT_EQ(outstanding_channels(zeros, 2), (std::pair<std::int64_t, std::int64_t>{0, 0}));
}

}  // namespace
}  // namespace foldgrad::testing
