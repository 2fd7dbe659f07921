#include "tests/harness/compare.h"

#include <cmath>
#include <cstring>
#include <random>

namespace foldgrad::testing {
namespace {

std::vector<double> doubles(const Tensor& t) { return t.to(DType::f64).values<double>(); }

}  // namespace

::testing::AssertionResult close(const Tensor& got, const Tensor& want, double tolerance) {
  if (!got.defined() || !want.defined() || !(got.shape() == want.shape()))
    return ::testing::AssertionFailure() << "got " << (got.defined() ? got.shape().str() : "nothing") << ", want "
                                         << (want.defined() ? want.shape().str() : "nothing");
  const std::vector<double> g = doubles(got), w = doubles(want);
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (std::abs(g[i] - w[i]) <= tolerance * (1 + std::abs(w[i]))) continue;
    if (std::isinf(w[i]) && g[i] == w[i]) continue;
    ::testing::AssertionResult failure = ::testing::AssertionFailure();
    failure.operator<<(fmt::format("at {} of {}: got {:.17g}, want {:.17g}, off by {:.3g} where {:.3g} is allowed", i,
                                   got.shape(), g[i], w[i], std::abs(g[i] - w[i]), tolerance * (1 + std::abs(w[i]))));
    return failure;
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult identical(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || !(got.shape() == want.shape()))
    return ::testing::AssertionFailure() << "dtypes or shapes differ";
  const Tensor g = got.to(Device::cpu), w = want.to(Device::cpu);
  if (g.bytes() == 0 || std::memcmp(g.raw(), w.raw(), g.bytes()) == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the bits differ; " << close(got, want, 0).message();
}

Tensor randn(Shape shape, unsigned seed, double scale, double mean) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(mean, scale);
  std::vector<double> values(shape.elements());
  for (double& v : values) v = normal(rng);
  return Tensor::of(std::move(shape), values);
}

Tensor randn_off_zero(Shape shape, unsigned seed, double margin) {
  Tensor t = randn(std::move(shape), seed);
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (std::abs(t.data<double>()[i]) < margin) t.data<double>()[i] = std::copysign(margin, t.data<double>()[i]);
  return t;
}

Tensor random_ids(Shape shape, std::int64_t limit, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::int64_t> ids(shape.elements());
  for (std::int64_t& id : ids) id = std::int64_t(rng() % std::uint64_t(limit));
  return Tensor::of(std::move(shape), ids);
}

}  // namespace foldgrad::testing
