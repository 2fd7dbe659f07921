#include "train/analyses/outliers.h"

#include <algorithm>
#include <cmath>

#include "tests/harness/compare.h"
#include "train/analyses/pnac.h"

namespace foldgrad::testing {
namespace {

// For M = 2, with roots r: the distance between the new value n and the kept one k is (n - k)^2 / 2, and the threshold
// is the square of the window's difference. By hand, from the third value: (3 - 2)^2/2 > 1? (4 - 3)^2/2 > 1? (7 -
// 4)^2/2 > 1: yes. (10 - 7)^2/2 > 9? (5 - 10)^2/2 > 9: yes. If windows held the value that the skip of 49 writes, 100
// would fire too.
TEST(Outliers, UN_19_AreCountedInWindowsOfRecordedValues) {
  const std::vector<float> q{1, 4, 9, 16, 49, 100, 25};
  EXPECT_EQ(percent_of_outliers({{"window", "2"}}, q, 1), 40);
  EXPECT_EQ(percent_of_outliers({{"window", "2"}, {"mode", "reference"}}, q, 1), 40);
  EXPECT_EQ(percent_of_outliers({{"window", "2"}, {"filtration", "0"}, {"warmup", "4000"}}, q, 1), 40);
  EXPECT_EQ(percent_of_outliers({{"window", "2"}, {"flag_low", "0"}}, q, 1), 20);
  // The released form fires at 100, before the window is full: it is (0, 1, 4).
  EXPECT_EQ(percent_of_outliers({{"window", "3"}, {"mode", "reference"}}, {1, 4, 100, 4}, 1), 0);
  // A second channel at another level raises the threshold of both, unless each has its own.
  std::vector<float> two;
  for (const float value : q) two.insert(two.end(), {value, 900.f});
  EXPECT_EQ(percent_of_outliers({{"window", "2"}}, two, 2), 0);
  EXPECT_EQ(percent_of_outliers({{"window", "2"}, {"granularity", "layer_any"}}, two, 2), 40);
}

TEST(Outliers, NeedAWindowAndARowAfterIt) {
  const std::vector<float> q{1, 4, 9, 16};
  EXPECT_TRUE(std::isnan(percent_of_outliers({}, q, 1)));
  EXPECT_TRUE(std::isnan(percent_of_outliers({{"window", "1"}}, q, 1)));
  for (const char* average : {"none", "exponential"})
    EXPECT_TRUE(std::isnan(percent_of_outliers({{"window", "2"}, {"forward_average", average}}, q, 1)));
  EXPECT_EQ(percent_of_outliers({{"window", "3"}}, q, 1), 0);
}

TEST(Outliers, NoiseIsThatOfEachChannel) {
  constexpr std::int64_t kRows = 2000, kChannels = 3;
  std::vector<float> q;  // a drift, of three sizes
  for (int row = 0; row < kRows; ++row)
    for (int c = 1; c <= kChannels; ++c) q.push_back(float(c * (10 + 1e-3 * row)));
  const std::vector<float> shuffled = shuffled_in_time(q, kChannels), normal = normal_noise_like(q, kChannels);
  int places = 0, rows = 0;
  for (std::int64_t c = 0; c < kChannels; ++c) {
    std::vector<double> values = channel_values(shuffled, kChannels, c);
    for (std::int64_t row = 0; row < kRows; ++row) places += values[row] == q[row * kChannels + c];
    std::ranges::sort(values);
    EXPECT_EQ(values, channel_values(q, kChannels, c));
    // One time in three the mean of 2,000 values is off by 1/45 and their deviation by 1/63 of a deviation.
    const std::vector<double> noise = channel_values(normal, kChannels, c);
    double squares = 0;
    for (const double v : noise) squares += std::pow(v - mean_of(noise), 2) / double(kRows);
    EXPECT_NEAR(mean_of(noise), double(c + 1) * 10.9995, double(c + 1) * 0.06);
    EXPECT_NEAR(std::sqrt(squares), double(c + 1) * 0.57735, double(c + 1) * 0.04);
    EXPECT_GT(normality_of(noise).p, 1e-3);
  }
  EXPECT_LT(places, 20) << "in each channel one value in 2,000 keeps its place";
  for (std::int64_t row = 0; row < kRows; ++row)
    rows += std::fabs(2 * shuffled[row * kChannels] - shuffled[row * kChannels + 1]) < 1e-3;
  EXPECT_LT(rows, 40) << "channels have different orders";
}

}  // namespace
}  // namespace foldgrad::testing
