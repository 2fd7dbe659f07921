// What the paper of UN proves about its outlier test, in the form in which it is true
// (docs/derivations/channel_norm.md), on random windows; and what is not true, by counterexample.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/channel_norm/channel_norm_math.h"
#include "tests/harness/properties.h"
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

namespace math = channel_norm_math;
using Entries = std::vector<double>;

math::Window<double> window(const Entries& a) { return {a.data(), std::int64_t(a.size()), 1}; }
math::Means means(const Entries& a) { return math::means(window(a), -1, 0, 0); }
double distance(const Entries& a) { return means(a).arithmetic - means(a).geometric; }
double variance(const Entries& a, int ddof) { return math::variance_of_roots(window(a), ddof); }
bool fires(const Entries& before, std::int64_t slot, double q, int ddof) {
  ChannelNormOptions o = filtered(Granularity::channel);
  o.ddof = ddof;
  o.window_forward = std::int64_t(before.size());
  return math::outlier<double>(o, math::propose(o, window(before), slot, q), double(before.size()));
}

// Windows of several families over many orders of magnitude.
struct Windows {
  std::mt19937_64 rng;
  explicit Windows(unsigned seed) : rng(seed) {}
  int below(int n) { return int(rng() % unsigned(n)); }
  double uniform() { return std::uniform_real_distribution<double>()(rng); }
  Entries operator()(int shortest) {
    const int sizes[] = {1, 2, 3, 4, 6, 8, 10, 16};
    int M = sizes[below(8)];
    if (M < shortest) M = shortest;
    const double scale = std::pow(10., 12 * uniform() - 6), spread = std::pow(10., 4 * uniform() - 3);
    const int family = below(4);
    Entries a(M);
    for (double& v : a)
      v = scale * (family == 0   ? 1
                   : family == 1 ? uniform()
                                 : std::exp(spread * std::normal_distribution<double>()(rng)));
    if (family == 3) a[below(M)] *= std::pow(10., 8 * uniform() - 4);
    return a;
  }
};
constexpr int kWindows = 200;  // per run of RapidCheck, which makes 100

// V_u <= AM - GM <= M V_b <= M V_u.
RC_GTEST_PROP(ChannelNormLemma, UN_18_P1_BothVariances, (unsigned seed)) {
  Windows random(seed);
  for (int i = 0; i < kWindows; ++i) {
    const Entries a = random(2);
    const double M = double(a.size()), d = distance(a), rounding = 1e-12 * means(a).arithmetic;
    RC_ASSERT(d <= M * variance(a, 0) * (1 + 1e-9) + rounding);
    RC_ASSERT(d <= M * variance(a, 1) * (1 + 1e-9) + rounding);
    RC_ASSERT(variance(a, 1) <= d * (1 + 1e-9) + rounding);
  }
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
    const ChannelNormOptions o = filtered(g);
    const ChannelNormState state = ChannelNormState::create(o, 3, DType::f64);
    Tape tape(/*recording=*/false);
    const Var one = tape.constant(Tensor::full({3}, 1, DType::f64));
    for (unsigned t = 0; t < 12; ++t)
      channel_norm(tape.constant(randn({5, 3}, seed % 1000 + t % 4)), one, one, nullptr, state, o, true);
    RC_ASSERT(state.skips.item() == 0);
  }
}

// A window in which the test fires, with a margin, and the entry that the new value replaces.
struct Fired {
  Entries before, after;
  double replaced, q;
};
template <class Body>
int for_fired(unsigned seed, const Body& body) {
  Windows random(seed);
  int fired = 0;
  for (int i = 0; i < kWindows; ++i) {
    const Entries before = random(2);
    const std::size_t slot = std::size_t(random.below(int(before.size())));
    Fired f{before, before, before[slot], before[slot] * std::pow(10., 6 * random.uniform() - 3)};
    f.after[slot] = f.q;
    const double M = double(before.size()), threshold = M * variance(before, 0);
    if (!(distance(f.after) > threshold * (1 + 1e-9) + 1e-11 * means(f.after).arithmetic)) continue;
    body(f);
    ++fired;
  }
  return fired;
}

// Inequality (20) of the paper: the distance has grown.
RC_GTEST_PROP(ChannelNormLemma, UN_19_P4_DistanceGrowsWhereItFires, (unsigned seed)) {
  RC_ASSERT(for_fired(seed, [](const Fired& f) { RC_ASSERT(distance(f.after) > distance(f.before)); }) > 0);
}

// Lemma 3.1 as its proof has it: with u = (a_{t-M} / a_t)^(1/M) and f the mean of 1, u, ..., u^(M-1), lambda < f < 1
// upwards and lambda > f > 1 downwards.
RC_GTEST_PROP(ChannelNormLemma, Lemma_3_1_P5_WhereItFires, (unsigned seed)) {
  for_fired(seed, [](const Fired& w) {
    const double M = double(w.before.size()), lambda = means(w.after).geometric / w.q;
    const double u = std::pow(w.replaced / w.q, 1 / M);
    double f = 0;
    for (int k = 0; k < int(M); ++k) f += std::pow(u, k) / M;
    if (w.q > w.replaced) {
      RC_ASSERT(lambda < f && f < 1);
    } else {
      RC_ASSERT(lambda > f && f > 1);
    }
  });
}

// Corollary 3.2 for outliers upwards: the true gradient, G lambda / M, is below 1/M of the estimate. That lambda / M is
// the derivative of the geometric mean is checked with differences.
RC_GTEST_PROP(ChannelNormLemma, Corollary_3_2_P6_Upwards, (unsigned seed)) {
  for_fired(seed, [](const Fired& w) {
    const double M = double(w.before.size()), lambda = means(w.after).geometric / w.q, h = 1e-6 * w.q;
    Entries more = w.after, less = w.after;
    for (std::size_t k = 0; k < more.size(); ++k)
      if (w.after[k] == w.q) more[k] += h, less[k] -= h;
    const double slope = (means(more).geometric - means(less).geometric) / (2 * h);
    RC_ASSERT(std::fabs(slope - lambda / M) <= 1e-6 * lambda / M);
    if (w.q > w.replaced) RC_ASSERT(lambda / M < 1 / M);
  });
}

RC_GTEST_PROP(ChannelNormLemma, P8_Means, (unsigned seed)) {
  Windows random(seed);
  for (int i = 0; i < kWindows; ++i) {
    const Entries a = random(1);
    const math::Means m = means(a);
    const double least = *std::min_element(a.begin(), a.end()), most = *std::max_element(a.begin(), a.end());
    RC_ASSERT(m.arithmetic >= m.geometric * (1 - 1e-12));
    RC_ASSERT(least * (1 - 1e-12) <= m.geometric && m.geometric <= most * (1 + 1e-12));
    Entries scaled = a;
    for (double& v : scaled) v *= 7;
    RC_ASSERT(std::fabs(means(scaled).geometric - 7 * m.geometric) <= 1e-12 * 7 * m.geometric);
    if (a.size() < 2) continue;
    RC_ASSERT(std::fabs(variance(scaled, 1) - 7 * variance(a, 1)) <= 1e-9 * means(scaled).arithmetic);
  }
}

// The form in the authors' README has the new window on both sides: by UN-18 it says never.
RC_GTEST_PROP(ChannelNormLemma, UN_18_TheReadmesTestNeverFires, (unsigned seed)) {
  for_fired(seed, [](const Fired& w) {
    RC_ASSERT(distance(w.after) <=
              double(w.after.size()) * variance(w.after, 0) * (1 + 1e-9) + 1e-12 * means(w.after).arithmetic);
  });
}

TEST(ChannelNormLemma, Lemma_3_1_BoundNeedsTheCondition) {
  const Entries before{9, 9, 9, 0.01}, after{9, 9, 9, 9.5};
  EXPECT_FALSE(fires(before, 3, 9.5, 0));
  const double u = std::pow(0.01 / 9.5, 0.25), f = (1 + u + u * u + u * u * u) / 4;
  EXPECT_NEAR(f, 0.305, 5e-4);
  EXPECT_NEAR(means(after).geometric / 9.5, 0.960, 5e-4);
}

TEST(ChannelNormLemma, Corollary_3_2_FailsDownwards) {
  const Entries before{1, 1.1, 0.9, 1}, after{1, 1.1, 0.9, 1e-4};
  EXPECT_TRUE(fires(before, 3, 1e-4, 1));
  EXPECT_NEAR(distance(after), 0.650, 5e-4);
  const double lambda = means(after).geometric / 1e-4;
  EXPECT_NEAR(lambda, 997, 0.5);
  EXPECT_GT(lambda / 4, 0.25);
}

// 99 channels at 1 and one with the window (1, 1, 1, 100), whose last value comes again.
TEST(ChannelNormLemma, UN_19_PooledThresholdFiresOnAReplay) {
  for (Granularity g : {Granularity::pooled, Granularity::layer_sum, Granularity::layer_any}) {
    const ChannelNormOptions o = filtered(g);
    const ChannelNormState state = ChannelNormState::create(o, 100, DType::f64);
    Tape tape(/*recording=*/false);
    const Var one = tape.constant(Tensor::full({100}, 1, DType::f64));
    for (int t = 0; t < 8; ++t) {
      const Tensor x = Tensor::full({1, 100}, 1, DType::f64);
      if (t % 4 == 3) x.data<double>()[7] = 10;
      channel_norm(tape.constant(x), one, one, nullptr, state, o, true);
    }
    EXPECT_EQ(state.skips.item() > 0, g == Granularity::pooled) << int(g);
  }
}

// A constant window has the threshold 0.
TEST(ChannelNormLemma, UN_19_P7_ConstantWindowFiresAtAnyChange) {
  EXPECT_TRUE(fires({1, 1, 1, 1}, 0, 1.001, 1));
  EXPECT_FALSE(fires({1, 1, 1, 1}, 0, 1, 1));
}

}  // namespace
}  // namespace foldgrad::testing
