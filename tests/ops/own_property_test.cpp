// docs/verify.md shows this test as an example of how users can add properties.
#include "ops/rms_norm/rms_norm.h"
#include "tests/harness/generators.h"

namespace foldgrad::testing {
namespace {

double mean_square(const Tensor& t) {
  double sum = 0;
  for (double v : t.values<double>()) sum += v * v;
  return sum / double(t.size());
}

// RMSNorm with gain 1 turns a row of mean square m into one of mean square m / (m + eps).
TEST(OwnProperty, MeanSquareOfANormalizedRow) {
  check_property(1000, [] {
    const auto channels = *rc::gen::inRange<std::int64_t>(1, 9).as("channels");
    const Tensor x = *any_tensor({1, channels}).as("x");
    Tape tape;
    const Var gain = tape.constant(Tensor::full({channels}, 1, DType::f64));
    const double m = mean_square(x), eps = 0.5;
    RC_ASSERT(std::fabs(mean_square(rms_norm(tape.constant(x), gain, eps).value()) - m / (m + eps)) <= 1e-14);
  });
}

}  // namespace
}  // namespace foldgrad::testing
