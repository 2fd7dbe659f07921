// Time series from a recording: moving means, and PNAC, the percentage of channels whose values in a window pass a
// normality test. Compare PNAC with its value for normally distributed noise, which depends on the window: by
// definition 5 % of the noise channels fail, and the test is inexact for short windows.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "train/analyses/recording.h"

namespace foldgrad {

// D'Agostino and Pearson's normality test (1973), as scipy.stats.normaltest computes it.
constexpr std::size_t kLeastNormalitySample = 8;

struct Normality {
  double k2, p;  // Z1^2 + Z2^2, from skewness and kurtosis; probability of a larger k2. NaN if all values are equal
};

// Throws std::invalid_argument if there are fewer than 8 values.
Normality normality_of(std::span<const double> values);

constexpr double kNormalityLevel = 0.05;

// Returns the percentage of channels with p > 0.05 over the last `window` rows of `values` [rows, channels], with one
// entry for each iteration starting at the window-th. A channel that is constant or not finite does not pass. Throws
// std::invalid_argument if the window is below 8 or above the number of rows.
std::vector<double> pnac(const std::vector<float>& values, std::int64_t channels, std::int64_t window);

// Returns pnac() of independent standard normal values, which are the same in every call.
std::vector<double> pnac_of_noise(std::int64_t rows, std::int64_t channels, std::int64_t window);

double mean_of(const std::vector<double>& values);

// The arithmetic and geometric means of the last `window` values, with one entry for each value starting at the
// window-th.
struct MovingMeans {
  std::vector<double> arithmetic, geometric;
};
// Throws std::invalid_argument unless `window` is in [1, number of values]. If a window contains a negative value, the
// window's geometric mean is NaN.
MovingMeans moving_means(const std::vector<double>& values, std::int64_t window);

constexpr std::int64_t kTraceWindow = 4;  // the default window of UN

// Returns one channel of values [rows, channels].
std::vector<double> channel_values(const std::vector<float>& values, std::int64_t channels, std::int64_t channel);

// Returns the channels with the smallest and the largest ratio AM/GM of the last `window` values of q, averaged over
// the iterations. Leaves out channels where the ratio is not finite because a q is 0. Returns {0, 0} if no channel is
// left. Throws the exceptions of moving_means().
std::pair<std::int64_t, std::int64_t> outstanding_channels(const SiteRecording& site, std::int64_t window);

}  // namespace foldgrad
