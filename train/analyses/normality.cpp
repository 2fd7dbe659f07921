#include "train/analyses/normality.h"

#include <cmath>

#include "engine/check.h"

namespace foldgrad {
namespace {

// Z1 of the skewness g, which a normal distribution makes standard normal (D'Agostino 1970).
double skewness_score(double g, double n) {
  const double Y = g * std::sqrt((n + 1) * (n + 3) / (6 * (n - 2)));
  const double B = 3 * (n * n + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9));
  const double W2 = std::sqrt(2 * (B - 1)) - 1;
  return std::asinh(Y * std::sqrt((W2 - 1) / 2)) / std::sqrt(std::log(W2) / 2);
}

// Z2 of the kurtosis b (Anscombe and Glynn 1983).
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

template <class T>
Normality test(std::span<const T> values) {
  FOLDGRAD_CHECK(values.size() >= kLeastNormalitySample, "a test of normality needs at least {} values, got {}",
                 kLeastNormalitySample, values.size());
  const double n = double(values.size());
  double mean = 0, m2 = 0, m3 = 0, m4 = 0;
  for (const double v : values) mean += v;
  mean /= n;  // exact where all values are one f32
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

}  // namespace

Normality normality_of(std::span<const float> values) { return test(values); }
Normality normality_of(std::span<const double> values) { return test(values); }

}  // namespace foldgrad
