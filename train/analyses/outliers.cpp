#include "train/analyses/outliers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "models/normalizers/normalizer.h"
#include "train/analyses/pnac.h"

namespace foldgrad {
namespace {

// Applies change(values) to each channel of q, and returns the results.
template <class Change>
std::vector<float> by_channel(std::vector<float> q, std::int64_t channels, const Change& change) {
  for (std::int64_t c = 0; c < channels; ++c) {
    std::vector<double> values = channel_values(q, channels, c);
    change(values);
    for (std::size_t row = 0; row < values.size(); ++row) q[row * channels + c] = float(values[row]);
  }
  return q;
}

}  // namespace

double percent_of_outliers(const std::map<std::string, std::string>& options, const std::vector<float>& q,
                           std::int64_t channels) {
  std::map<std::string, std::string> test = options;
  test["filtration"] = "1";
  test["warmup"] = "0";
  const NormalizerOptions values("un", normalizer_info("un").options, test);
  const std::string& average = values.text("forward_average");
  const std::int64_t rows = std::int64_t(q.size()) / channels, M = values.integer("window");
  if (average == "none" || average == "exponential" || M < 2 || rows <= M)
    return std::numeric_limits<double>::quiet_NaN();
  const auto norm = make_normalizer("un", test, "outliers", channels, DType::f64);
  const auto skips = [&] { return norm->state().at("skips").item(); };
  const Tensor window = norm->state().at("win_sq");
  double before = 0;
  for (std::int64_t t = 1; t <= rows; ++t) {
    if (t == M + 1) before = skips();  // the released form also tests windows that are not full
    std::vector<double> row(q.begin() + (t - 1) * channels, q.begin() + t * channels), roots;
    for (const double value : row) roots.push_back(std::sqrt(value));
    Tape tape(/*recording=*/false);
    norm->apply(tape.constant(Tensor::of({1, channels}, roots)), {.training = true});
    window.slice(t % M, t % M + 1).copy_from(Tensor::of({1, channels}, row));
  }
  return 100 * (skips() - before) / double(rows - M);
}

std::vector<float> shuffled_in_time(const std::vector<float>& q, std::int64_t channels) {
  std::mt19937_64 random(1);
  return by_channel(q, channels, [&](std::vector<double>& values) {
    // By Fisher and Yates: the results of std::shuffle depend on the library.
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
  });
}

std::vector<float> normal_noise_like(const std::vector<float>& q, std::int64_t channels) {
  const std::int64_t rows = std::int64_t(q.size()) / channels;
  std::vector<double> noise = standard_normal(rows * channels);
  std::int64_t channel = 0;
  return by_channel(q, channels, [&](std::vector<double>& values) {
    const double mean = mean_of(values);
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / double(rows - 1));
    for (std::int64_t row = 0; row < rows; ++row)
      values[row] = std::max(0.0, mean + deviation * noise[row * channels + channel]);
    ++channel;
  });
}

}  // namespace foldgrad
