#include "train/analyses/pnac.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>
#include <numeric>
#include <random>

#include "engine/check.h"
#include "engine/cpu/threads.h"

namespace foldgrad {
namespace {

// Returns Z1 of the skewness g, which is standard normal for a normal distribution (D'Agostino 1970).
double skewness_score(double g, double n) {
  const double Y = g * std::sqrt((n + 1) * (n + 3) / (6 * (n - 2)));
  const double B = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9));
  const double W2 = std::sqrt(2 * (B - 1)) - 1;
  return std::asinh(Y * std::sqrt((W2 - 1) / 2)) / std::sqrt(std::log(W2) / 2);
}

// Returns Z2 of the kurtosis b (Anscombe and Glynn 1983).
double kurtosis_score(double b, double n) {
  const double E = 3 * (n - 1) / (n + 1);
  const double V = 24 * n * (n - 2) * (n - 3) / ((n + 1) * (n + 1) * (n + 3) * (n + 5));
  const double x = (b - E) / std::sqrt(V);
  const double S =
      6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9)) * std::sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)));
  const double A = 6 + 8 / S * (2 / S + std::sqrt(1 + 4 / (S * S)));
  const double root = std::cbrt((1 - 2 / A) / (1 + x * std::sqrt(2 / (A - 4))));
  return (1 - 2 / (9 * A) - root) / std::sqrt(2 / (9 * A));
}

}  // namespace

Normality normality_of(std::span<const double> values) {
  FOLDGRAD_CHECK(values.size() >= kLeastNormalitySample, "a normality test needs at least {} values, got {}",
                 kLeastNormalitySample, values.size());
  const double n = double(values.size());
  double mean = 0, m2 = 0, m3 = 0, m4 = 0;
  for (const double v : values) mean += v;
  mean /= n;  // exact if all values are equal f32 numbers
  for (const double v : values) {
    const double d = v - mean, square = d * d;
    m2 += square / n;
    m3 += square * d / n;
    m4 += square * square / n;
  }
  const double z1 = skewness_score(m3 / (m2 * std::sqrt(m2)), n), z2 = kurtosis_score(m4 / (m2 * m2), n);
  const double k2 = z1 * z1 + z2 * z2;
  return {k2, std::exp(-k2 / 2)};
}

std::vector<double> pnac(const std::vector<float>& values, std::int64_t channels, std::int64_t window) {
  const std::int64_t rows = std::int64_t(values.size()) / channels, windows = rows - window + 1;
  FOLDGRAD_CHECK(window >= std::int64_t(kLeastNormalitySample),
                 "--window must be at least {}, the smallest sample of the normality test, got {}",
                 kLeastNormalitySample, window);
  FOLDGRAD_CHECK(windows > 0, "--window must be at most {}, the number of recorded iterations, got {}", rows, window);
  std::vector<int> passed(windows);
  std::mutex adding;
  parallel_ranges(channels, windows * window, [&](std::int64_t begin, std::int64_t end) {
    std::vector<int> own(windows);
    for (std::int64_t c = begin; c < end; ++c) {
      const std::vector<double> channel = channel_values(values, channels, c);
      for (std::int64_t w = 0; w < windows; ++w)
        own[w] += normality_of(std::span(channel).subspan(w, window)).p > kNormalityLevel;
    }
    const std::lock_guard lock(adding);
    for (std::int64_t w = 0; w < windows; ++w) passed[w] += own[w];
  });
  std::vector<double> percent;
  for (const int count : passed) percent.push_back(100.0 * count / double(channels));
  return percent;
}

std::vector<double> pnac_of_noise(std::int64_t rows, std::int64_t channels, std::int64_t window) {
  std::mt19937_64 random(1);
  const auto uniform = [&random] { return (double(random() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> noise(rows * channels);
  // Uses Box-Muller, since the results of std::normal_distribution depend on the library.
  for (float& value : noise)
    value = float(std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()));
  return pnac(noise, channels, window);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

MovingMeans moving_means(const std::vector<double>& values, std::int64_t window) {
  FOLDGRAD_CHECK(window >= 1 && window <= std::int64_t(values.size()),
                 "--window must be in [1, {}], where the upper limit is the number of recorded iterations, got {}",
                 values.size(), window);
  MovingMeans means;
  for (std::size_t end = window; end <= values.size(); ++end) {
    double sum = 0, logs = 0;
    for (std::size_t i = end - window; i < end; ++i) {
      sum += values[i];
      logs += std::log(values[i]);
    }
    means.arithmetic.push_back(sum / double(window));
    means.geometric.push_back(std::exp(logs / double(window)));
  }
  return means;
}

std::vector<double> channel_values(const std::vector<float>& values, std::int64_t channels, std::int64_t channel) {
  std::vector<double> found;
  for (std::size_t i = channel; i < values.size(); i += channels) found.push_back(values[i]);
  return found;
}

std::pair<std::int64_t, std::int64_t> outstanding_channels(const SiteRecording& site, std::int64_t window) {
  std::vector<double> ratios;
  std::vector<std::int64_t> finite;
  for (std::int64_t c = 0; c < site.channels; ++c) {
    const MovingMeans m = moving_means(channel_values(site.q, site.channels, c), window);
    double sum = 0;
    for (std::size_t i = 0; i < m.arithmetic.size(); ++i) sum += m.arithmetic[i] / m.geometric[i];
    ratios.push_back(sum);
    if (std::isfinite(sum)) finite.push_back(c);
  }
  if (finite.empty()) return {0, 0};
  const auto [least, greatest] = std::ranges::minmax_element(finite, {}, [&](std::int64_t c) { return ratios[c]; });
  return {*least, *greatest};
}

}  // namespace foldgrad
