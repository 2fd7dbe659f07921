// The lemmas of UN's paper about its outlier test, in the form in which they are true
// (docs/derivations/channel_norm.md), on random windows; and the form that is not true, by counterexample.
#include <cmath>
#include <random>

#include "ops/channel_norm/channel_norm_skip.h"
#include "tests/harness/properties.h"
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

namespace math = channel_norm_math;
using Entries = std::vector<double>;

math::Window<double> window(const Entries& a) { return {a.data(), std::int64_t(a.size()), 1}; }
bool fires(const Entries& before, std::int64_t slot, double q, int ddof) {
  ChannelNormOptions o = filtered(Granularity::channel);
  o.ddof = ddof;
  o.window_forward = std::int64_t(before.size());
  return math::fires<double>(o, math::skip_terms(o, window(before), slot, q), double(before.size()));
}

// The means of the inequalities, computed otherwise than by the code: in long doubles, by roots and products.
using Real = long double;
Real arithmetic(const Entries& a) {
  Real sum = 0;
  for (double v : a) sum += v;
  return sum / Real(a.size());
}
Real geometric(const Entries& a) {
  Real product = 1;
  for (double v : a) product *= std::pow(Real(v), 1 / Real(a.size()));
  return product;
}
Real distance(const Entries& a) { return arithmetic(a) - geometric(a); }
// Computes the variance by the differences of all pairs.
Real variance(const Entries& a, int ddof) {
  Real sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) sum += std::pow(std::sqrt(Real(a[i])) - std::sqrt(Real(a[j])), 2);
  return sum / (Real(a.size()) * Real(a.size() - std::size_t(ddof)));
}

// Windows of several families over many orders of magnitude: a few of equal entries, some with one zero, or with all
// but one.
struct Windows {
  std::mt19937_64 rng;
  explicit Windows(unsigned seed) : rng(seed) {}
  int below(int n) { return int(rng() % unsigned(n)); }
  double uniform() { return std::uniform_real_distribution<double>()(rng); }
  Entries operator()(int shortest, bool zeros = true) {
    const int sizes[] = {1, 2, 3, 4, 6, 8, 10, 16};
    const int M = std::max(sizes[below(8)], shortest), family = below(16);
    const double scale = std::pow(10., 12 * uniform() - 6), spread = std::pow(10., 4 * uniform() - 3);
    Entries a(M, scale);
    for (double& v : a) {
      if (family == 0) continue;
      v *= family < 5 ? uniform() : std::exp(spread * std::normal_distribution<double>()(rng));
    }
    if (family >= 12) a[below(M)] *= std::pow(10., 8 * uniform() - 4);
    if (zeros && family % 4 == 3) a[below(M)] = 0;
    if (zeros && family == 11) std::fill(a.begin() + 1, a.end(), 0);
    return a;
  }
};
constexpr int kWindows = 200;  // per run of RapidCheck, which makes 100
template <class Body>
void for_windows(unsigned seed, int shortest, const Body& body) {
  Windows random(seed);
  for (int i = 0; i < kWindows; ++i) body(random(shortest));
}

RC_GTEST_PROP(ChannelNormLemma, UN_16_MeansAndVarianceAreThose, (unsigned seed)) {
  for_windows(seed, 2, [](const Entries& a) {
    RC_ASSERT(std::fabs(math::arithmetic_mean(window(a)) - arithmetic(a)) <= 1e-14 * arithmetic(a));
    RC_ASSERT(std::fabs(math::geometric_mean(window(a), 0) - geometric(a)) <= 1e-13 * geometric(a));
    // A root is rounded by some 1e-16 of itself, and the square of a difference d of roots then by 2e-16 d root: at
    // most 1e-12 d^2 + 1e-20 root^2.
    for (int ddof : {0, 1})
      RC_ASSERT(std::fabs(math::variance_of_roots(window(a), ddof) - variance(a, ddof)) <=
                1e-12 * variance(a, ddof) + 1e-19 * arithmetic(a));
  });
}

// V_u <= AM - GM <= M V_b <= M V_u.
RC_GTEST_PROP(ChannelNormLemma, UN_18_P1_BothVariances, (unsigned seed)) {
  for_windows(seed, 2, [](const Entries& a) {
    const Real M = Real(a.size()), d = distance(a), rounding = 1e-17L * arithmetic(a);
    RC_ASSERT(d <= M * variance(a, 0) + rounding);
    RC_ASSERT(d <= M * variance(a, 1) + rounding);
    RC_ASSERT(variance(a, 1) <= d + rounding);
  });
}

// The code decides as the inequality does, but within rounding of where both sides are equal.
RC_GTEST_PROP(ChannelNormLemma, UN_19_FiresWhereTheInequalityHolds, (unsigned seed)) {
  Windows random(seed);
  int fired = 0, quiet = 0;
  for (int i = 0; i < kWindows; ++i) {
    const Entries before = random(2, /*zeros=*/false);
    Entries after = before;
    const std::size_t slot = std::size_t(random.below(int(before.size())));
    after[slot] *= std::pow(10., 6 * random.uniform() - 3);
    for (int ddof : {0, 1}) {
      const Real threshold = Real(before.size()) * variance(before, ddof), d = distance(after);
      if (std::fabs(d - threshold) <= 1e-8L * (arithmetic(after) + threshold)) continue;
      RC_ASSERT(fires(before, std::int64_t(slot), after[slot], ddof) == (d > threshold));
      ++(d > threshold ? fired : quiet);
    }
  }
  RC_ASSERT(fired > 20 && quiet > 20);
}

RC_GTEST_PROP(ChannelNormLemma, UN_19_P2_ReplayNeverFires, (unsigned seed)) {
  Windows random(seed);
  for (int i = 0; i < kWindows; ++i) {
    const Entries a = random(2);
    const int slot = random.below(int(a.size()));
    RC_ASSERT(!fires(a, slot, a[slot], 0) && !fires(a, slot, a[slot], 1));
  }
}

// Summed over channels too, and whatever the layer rule, as long as thresholds are per channel.
RC_GTEST_PROP(ChannelNormLemma, UN_19_P2_P8_ReplayNeverFiresForALayer, (unsigned seed)) {
  for (Granularity g : {Granularity::channel, Granularity::layer_any, Granularity::layer_sum}) {
    const Layer layer(filtered(g), 3, Device::cpu);
    for (unsigned t = 0; t < 12; ++t) layer.forward(randn({5, 3}, seed % 1000 + t % 4));
    RC_ASSERT(layer.state.skips.item() == 0);
  }
}

// A window of positive entries in which the test fires, and the entry that the new value replaces.
struct Fired {
  Entries before, after;
  std::size_t slot;
  double replaced, q;
  Real lambda() const { return geometric(after) / q; }
};
// Runs `body` on those of 200 windows that fire; at least 10 fire upwards and 10 downwards.
template <class Body>
void for_fired(unsigned seed, const Body& body) {
  Windows random(seed);
  int up = 0, down = 0;
  for (int i = 0; i < kWindows; ++i) {
    const Entries before = random(2, /*zeros=*/false);
    const std::size_t slot = std::size_t(random.below(int(before.size())));
    Fired f{before, before, slot, before[slot], before[slot] * std::pow(10., 6 * random.uniform() - 3)};
    f.after[slot] = f.q;
    if (!fires(before, std::int64_t(slot), f.q, 0)) continue;
    body(f);
    ++(f.q > f.replaced ? up : down);
  }
  RC_ASSERT(up >= 10 && down >= 10);
}

// Inequality (20) of the paper: the distance has grown.
RC_GTEST_PROP(ChannelNormLemma, UN_19_P4_DistanceGrowsWhereItFires, (unsigned seed)) {
  for_fired(seed, [](const Fired& f) { RC_ASSERT(distance(f.after) > distance(f.before)); });
}

// Lemma 3.1 as its proof has it: with u = (a_{t-M} / a_t)^(1/M) and f the mean of 1, u, ..., u^(M-1), lambda < f < 1
// upwards and lambda > f > 1 downwards.
RC_GTEST_PROP(ChannelNormLemma, Lemma_3_1_P5_WhereItFires, (unsigned seed)) {
  for_fired(seed, [](const Fired& w) {
    const Real M = Real(w.before.size()), u = std::pow(Real(w.replaced) / w.q, 1 / M);
    Real f = 0;
    for (int k = 0; k < int(M); ++k) f += std::pow(u, Real(k)) / M;
    if (w.q > w.replaced) {
      RC_ASSERT(w.lambda() < f && f < 1);
    } else {
      RC_ASSERT(w.lambda() > f && f > 1);
    }
  });
}

// Corollary 3.2 for outliers upwards: the true gradient, G lambda / M, is below 1/M of the estimate. That lambda / M is
// the derivative of the geometric mean is checked with differences of the code's.
RC_GTEST_PROP(ChannelNormLemma, Corollary_3_2_P6_Upwards, (unsigned seed)) {
  for_fired(seed, [](const Fired& w) {
    const double M = double(w.before.size()), h = 1e-6 * w.q;
    const auto mean_with = [&](double q) {
      return math::geometric_mean(window(w.before).with(std::int64_t(w.slot), q), 0);
    };
    const Real slope = (mean_with(w.q + h) - mean_with(w.q - h)) / (2 * h);
    RC_ASSERT(std::fabs(slope - w.lambda() / M) <= 1e-6 * w.lambda() / M);
    if (w.q > w.replaced) RC_ASSERT(w.lambda() / M < 1 / M);
  });
}

RC_GTEST_PROP(ChannelNormLemma, P8_Means, (unsigned seed)) {
  for_windows(seed, 1, [](const Entries& a) {
    const double am = math::arithmetic_mean(window(a)), gm = math::geometric_mean(window(a), 0);
    const double least = *std::min_element(a.begin(), a.end()), most = *std::max_element(a.begin(), a.end());
    RC_ASSERT(am >= gm * (1 - 1e-12));
    RC_ASSERT(least * (1 - 1e-12) <= gm && gm <= most * (1 + 1e-12));
    Entries scaled = a;
    for (double& v : scaled) v *= 7;
    RC_ASSERT(std::fabs(math::geometric_mean(window(scaled), 0) - 7 * gm) <= 1e-12 * 7 * gm);
    if (a.size() < 2) return;
    RC_ASSERT(std::fabs(math::variance_of_roots(window(scaled), 1) - 7 * math::variance_of_roots(window(a), 1)) <=
              1e-9 * math::arithmetic_mean(window(scaled)));
  });
}

TEST(ChannelNormLemma, Lemma_3_1_BoundNeedsTheCondition) {
  const Entries before{9, 9, 9, 0.01}, after{9, 9, 9, 9.5};
  EXPECT_FALSE(fires(before, 3, 9.5, 0));
  const double u = std::pow(0.01 / 9.5, 0.25), f = (1 + u + u * u + u * u * u) / 4;
  EXPECT_NEAR(f, 0.305, 5e-4);
  EXPECT_NEAR(double(geometric(after)) / 9.5, 0.960, 5e-4);
}

TEST(ChannelNormLemma, Corollary_3_2_FailsDownwards) {
  const Entries before{1, 1.1, 0.9, 1}, after{1, 1.1, 0.9, 1e-4};
  EXPECT_TRUE(fires(before, 3, 1e-4, 1));
  EXPECT_NEAR(double(distance(after)), 0.650, 5e-4);
  const double lambda = double(geometric(after)) / 1e-4;
  EXPECT_NEAR(lambda, 997, 0.5);
  EXPECT_GT(lambda / 4, 0.25);
}

// 99 channels at 1 and one with the window (1, 1, 1, 100), whose last value comes again.
TEST(ChannelNormLemma, UN_19_PooledThresholdFiresOnAReplay) {
  for (Granularity g : {Granularity::pooled, Granularity::layer_sum, Granularity::layer_any}) {
    const Layer layer(filtered(g), 100, Device::cpu);
    for (int t = 0; t < 8; ++t) {
      const Tensor x = Tensor::full({1, 100}, 1, DType::f64);
      if (t % 4 == 3) x.data<double>()[7] = 10;
      layer.forward(x);
    }
    EXPECT_EQ(layer.state.skips.item() > 0, g == Granularity::pooled) << int(g);
  }
}

// A constant window has the threshold 0.
TEST(ChannelNormLemma, UN_19_P7_ConstantWindowFiresAtAnyChange) {
  EXPECT_TRUE(fires({1, 1, 1, 1}, 0, 1.001, 1));
  EXPECT_FALSE(fires({1, 1, 1, 1}, 0, 1, 1));
}

}  // namespace
}  // namespace foldgrad::testing
