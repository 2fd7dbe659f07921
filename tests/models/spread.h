// How initial values spread.
#pragma once
#include <algorithm>
#include <cmath>

#include "tests/harness/compare.h"

namespace foldgrad::testing {

// The deviation of a parameter's elements from 0; `greatest` is that of U(b) to be b.
struct Spread {
  double deviation = 0, greatest = 0;
};
inline Spread spread(const Tensor& t) {
  Spread s;
  for (double v : t.to(DType::f64).values<double>()) {
    s.deviation += v * v / double(t.size());
    s.greatest = std::max(s.greatest, std::abs(v));
  }
  s.deviation = std::sqrt(s.deviation);
  return s;
}

// Thousands of elements give the deviation to some percent, and the greatest of U(b) is nearly b.
inline void expect_normal(const Tensor& t, double deviation) {
  EXPECT_NEAR(spread(t).deviation, deviation, 0.08 * deviation);
}
inline void expect_uniform(const Tensor& t, double bound) {
  EXPECT_NEAR(spread(t).deviation, bound / std::sqrt(3), 0.08 * bound);
  EXPECT_LE(spread(t).greatest, bound * (1 + 1e-6));
  EXPECT_GE(spread(t).greatest, 0.9 * bound);
}

}  // namespace foldgrad::testing
