// Checks of the distribution of initial values.
#pragma once
#include <algorithm>

#include "tests/harness/compare.h"

namespace foldgrad::testing {

struct Spread {
  double mean = 0, deviation = 0, greatest = 0;  // deviation is the root mean square, greatest the largest |v|
};
inline Spread spread(const Tensor& t) {
  Spread s;
  for (double v : t.to(DType::f64).values<double>()) {
    s.mean += v / double(t.size());
    s.deviation += v * v / double(t.size());
    s.greatest = std::max(s.greatest, std::abs(v));
  }
  s.deviation = std::sqrt(s.deviation);
  return s;
}

// Allows the mean and the deviation errors of four standard errors. For n values, the standard error of the mean is
// deviation / sqrt(n). `standard_error` is the relative standard error of the deviation: 1 / sqrt(2 n) for a normal
// distribution, 0.45 / sqrt(n) for a uniform one. The tolerance of the deviation is at most 8 %.
inline void expect_deviation(const Spread& s, double deviation, double standard_error, double n) {
  EXPECT_NEAR(s.mean, 0, 4 * deviation / std::sqrt(n));
  EXPECT_NEAR(s.deviation, deviation, std::min(0.08, 4 * standard_error) * deviation);
}
inline void expect_normal(const Tensor& t, double deviation) {
  const auto n = double(t.size());
  expect_deviation(spread(t), deviation, 1 / std::sqrt(2 * n), n);
}
// Expects values from U(-bound, bound). The largest absolute value of n draws is about bound (1 - 1 / n); we require at
// least bound (1 - 10 / n), or 0.9 bound for small n.
inline void expect_uniform(const Tensor& t, double bound) {
  const auto n = double(t.size());
  const Spread s = spread(t);
  expect_deviation(s, bound / std::sqrt(3), 0.45 / std::sqrt(n), n);
  EXPECT_LE(s.greatest, bound * (1 + 1e-6));
  EXPECT_GE(s.greatest, bound * (1 - std::min(0.1, 10 / n)));
}

}  // namespace foldgrad::testing
