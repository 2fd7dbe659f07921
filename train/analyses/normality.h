// The test of normality of D'Agostino and Pearson (1973), as scipy.stats.normaltest computes it.
#pragma once
#include <span>

namespace foldgrad {

constexpr std::size_t kLeastNormalitySample = 8;

struct Normality {
  double k2, p;  // Z1^2 + Z2^2, of skewness and kurtosis; the probability of one as large. NaN without a spread
};

// Throws std::invalid_argument for fewer than 8 values.
Normality normality_of(std::span<const float> values);
Normality normality_of(std::span<const double> values);

}  // namespace foldgrad
