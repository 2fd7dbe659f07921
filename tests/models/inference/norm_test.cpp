#include "models/inference/norm.h"

#include <cmath>

#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

// Rows of 2^38 plus small deviations, all of them exact. The variance has to come from the deviations: mean(x^2) less
// mean(x)^2 is the same on paper, and would keep 4 digits here.
TEST(InferenceNorm, LargeMeansCostNoDigits) {
  constexpr std::int64_t kColumns = 16;
  constexpr double kMean = 274877906944;
  std::vector<double> x(kColumns), deviation(kColumns);
  double squares = 0;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    const auto i = std::size_t(c);
    deviation[i] = (c % 2 ? -1 : 1) * (1 + double(c / 2) / 8 + 1. / 1024);
    x[i] = kMean + deviation[i];
    squares += deviation[i] * deviation[i];
  }
  const auto ln = make_normalizer("ln", {}, "site", kColumns, DType::f64);
  InferenceNorm<double>(ln.get(), kColumns).in_place(Segments::equal(1, 1), x.data());
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(x[i], deviation[i] / std::sqrt(squares / kColumns + 1e-5), 1e-14) << i;
}

}  // namespace
}  // namespace foldgrad::testing
