// Tests the lemmas of UN's paper about its outlier test. Random windows check the versions that are true
// (docs/derivations/channel_norm.md), and counterexamples refute those that are not.
#include <map>

#include "ops/channel_norm/channel_norm_skip.h"
#include "tests/harness/generators.h"
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

namespace math = channel_norm_math;

math::Window<double> window(const Entries& a) { return {a.data(), std::int64_t(a.size()), 1}; }
bool fires(const Entries& before, std::int64_t slot, double q, int ddof) {
  ChannelNormOptions o = filtered(Granularity::channel);
  o.ddof = ddof;
  o.window_forward = std::int64_t(before.size());
  return math::fires<double>(o, math::skip_terms(o, window(before), slot, q), double(before.size()));
}
bool fires(const Arrival& a, int ddof) { return fires(a.before, a.slot, a.q, ddof); }

// The terms of the inequalities, computed independently of the code under test: in long double, with roots and products
// instead of logarithms.
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
// Returns the variance of the roots, computed from the differences of all pairs of roots.
Real variance(const Entries& a, int ddof) {
  Real sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) sum += std::pow(std::sqrt(Real(a[i])) - std::sqrt(Real(a[j])), 2);
  return sum / (Real(a.size()) * Real(a.size() - std::size_t(ddof)));
}

constexpr int kCases = 10000;
int any_ddof() { return *rc::gen::inRange(0, 2).as("ddof"); }

TEST(ChannelNormLemma, UN_16_MeansAndVarianceAreThose) {
  check_property(kCases, [] {
    const Entries a = *any_window(2);
    const int ddof = any_ddof();
    RC_ASSERT(std::fabs(math::arithmetic_mean(window(a)) - arithmetic(a)) <= 1e-14 * arithmetic(a));
    RC_ASSERT(std::fabs(math::geometric_mean(window(a), 0) - geometric(a)) <= 1e-13 * geometric(a));
    // A root has a relative error of about 1e-16. So the square of a difference d between two roots has an error of
    // about 2e-16 d root, which is at most 1e-12 d^2 + 1e-20 root^2.
    RC_ASSERT(std::fabs(math::variance_of_roots(window(a), ddof) - variance(a, ddof)) <=
              1e-12 * variance(a, ddof) + 1e-19 * arithmetic(a));
  });
}

// Checks V_u <= AM - GM <= M V_b <= M V_u, where V_b and V_u are the biased and unbiased variance of the roots.
TEST(ChannelNormLemma, UN_18_P1_BothVariances) {
  check_property(kCases, [] {
    const Entries a = *any_window(2);
    const Real M = Real(a.size()), d = distance(a), rounding = 1e-17L * arithmetic(a);
    RC_ASSERT(d <= M * variance(a, 0) + rounding);
    RC_ASSERT(d <= M * variance(a, 1) + rounding);
    RC_ASSERT(variance(a, 1) <= d + rounding);
  });
}

// The code must decide as the inequality does, unless both sides are equal within rounding.
TEST(ChannelNormLemma, UN_19_FiresWhereTheInequalityHolds) {
  check_property(kCases, [] {
    const Arrival a = *any_arrival();
    const int ddof = any_ddof();
    const Real threshold = Real(a.before.size()) * variance(a.before, ddof), d = distance(a.after());
    RC_LOG() << "AM - GM " << d << ", M V(sqrt) " << threshold << "\n";
    if (std::fabs(d - threshold) > 1e-8L * (arithmetic(a.after()) + threshold))
      RC_ASSERT(fires(a, ddof) == (d > threshold));
  });
}

// Returns one arrival for each of one to three channels. All windows have the same length, and q replaces their first
// entry.
std::vector<Arrival> any_layer() {
  std::vector<Arrival> layer(*rc::gen::inRange<std::uint32_t>(1, 4).as("channels"));
  std::size_t M = 16;
  for (Arrival& a : layer) {
    a = *any_arrival();
    std::swap(a.before[0], a.before[std::size_t(std::exchange(a.slot, 0))]);
    M = std::min(M, a.before.size());
  }
  for (Arrival& a : layer) a.before.resize(M);
  return layer;
}
bool fires(const std::vector<Arrival>& layer, Granularity g, int ddof) {
  ChannelNormOptions o = filtered(g);
  o.ddof = ddof;
  o.window_forward = std::int64_t(layer[0].before.size());
  math::SkipTerms terms;
  for (const Arrival& a : layer) terms.add(math::skip_terms(o, window(a.before), a.slot, a.q));
  return math::fires<double>(o, terms, double(layer.size() * layer[0].before.size()));
}

// Checks the same property for layers. A layer decides with one threshold for all windows (pooled), by any of its
// channels (layer_any), or with sums over its channels (layer_sum).
TEST(ChannelNormLemma, UN_19_LayersFireWhereTheirInequalityHolds) {
  check_property(kCases, [] {
    const std::vector<Arrival> layer = any_layer();
    const int ddof = any_ddof();
    const Real M = Real(layer[0].before.size());
    Entries all;
    for (const Arrival& a : layer) all.insert(all.end(), a.before.begin(), a.before.end());
    Real sum = 0, sum_of_thresholds = 0, level = 0;
    bool any = false, pooled = false, close = false;
    const auto above = [&](Real d, Real threshold) {
      close = close || std::fabs(d - threshold) <= 1e-8L * (level + threshold);
      return d > threshold;
    };
    for (const Arrival& a : layer) {
      const Real d = distance(a.after()), threshold = M * variance(a.before, ddof);
      RC_LOG() << "AM - GM " << d << ", M V(sqrt) " << threshold << ", of all windows " << M * variance(all, ddof)
               << "\n";
      level += arithmetic(a.after());
      any = above(d, threshold) || any;
      pooled = above(d, M * variance(all, ddof)) || pooled;
      sum += d;
      sum_of_thresholds += threshold;
    }
    const bool of_sums = above(sum, sum_of_thresholds);
    if (close) return;
    RC_ASSERT(fires(layer, Granularity::pooled, ddof) == pooled);
    RC_ASSERT(fires(layer, Granularity::layer_any, ddof) == any);
    RC_ASSERT(fires(layer, Granularity::layer_sum, ddof) == of_sums);
  });
}

TEST(ChannelNormLemma, UN_19_P2_ReplayNeverFires) {
  check_property(kCases, [] {
    const Entries a = *any_window(2);
    const auto slot = *rc::gen::inRange<std::int64_t>(0, std::int64_t(a.size())).as("slot");
    RC_ASSERT(!fires(a, slot, a[std::size_t(slot)], any_ddof()));
  });
}

// A layer that sees the same 4 batches again and again never skips, with any rule that computes a threshold per channel
// (layer_sum adds them up).
TEST(ChannelNormLemma, UN_19_P2_P8_ReplayNeverFiresForALayer) {
  check_property(300, [] {
    const std::string name = *rc::gen::element<std::string>("channel", "layer_any", "layer_sum").as("granularity");
    const Granularity g = name == "channel"     ? Granularity::channel
                          : name == "layer_any" ? Granularity::layer_any
                                                : Granularity::layer_sum;
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 6).as("rows"),
               channels = *rc::gen::inRange<std::int64_t>(1, 4).as("channels");
    const Tensor batches = *any_tensor({4, rows, channels}).as("4 batches");
    const Layer layer(filtered(g), channels, Device::cpu);
    for (std::int64_t t = 0; t < 12; ++t) layer.forward(batches.slice(t % 4, t % 4 + 1).reshape({rows, channels}));
    RC_ASSERT(layer.state.skips.item() == 0);
  });
}

// Returns an arrival at which the test fires, for a random ddof.
Arrival any_outlier() {
  const Arrival a = *any_arrival();
  RC_PRE(fires(a, any_ddof()));
  return a;
}
Real lambda(const Arrival& a) { return geometric(a.after()) / a.q; }

// Tests inequality (20) of the paper: if the test fires, AM - GM of the window has grown.
TEST(ChannelNormLemma, UN_19_P4_DistanceGrowsWhereItFires) {
  check_property(kCases, [] {
    const Arrival a = any_outlier();
    RC_ASSERT(distance(a.after()) > distance(a.before));
  });
}

// Tests Lemma 3.1 in the version that the paper proves. With u = (a_{t-M} / a_t)^(1/M) and f the mean of 1, u, ...,
// u^(M-1), lambda < f < 1 for upward outliers and lambda > f > 1 for downward ones.
TEST(ChannelNormLemma, Lemma_3_1_P5_WhereItFires) {
  check_property(kCases, [] {
    const Arrival a = any_outlier();
    const Real M = Real(a.before.size()), u = std::pow(Real(a.replaced()) / a.q, 1 / M);
    Real f = 0;
    for (int k = 0; k < int(M); ++k) f += std::pow(u, Real(k)) / M;
    if (a.q > a.replaced()) {
      RC_ASSERT(lambda(a) < f);
      RC_ASSERT(f < 1);
    } else {
      RC_ASSERT(lambda(a) > f);
      RC_ASSERT(f > 1);
    }
  });
}

// Tests Corollary 3.2 for upward outliers: the true gradient, G lambda / M, is below 1/M of the estimate. Central
// differences check that the derivative of the code's geometric mean is lambda / M.
TEST(ChannelNormLemma, Corollary_3_2_P6_Upwards) {
  check_property(kCases, [] {
    const Arrival a = any_outlier();
    const double M = double(a.before.size()), h = 1e-6 * a.q;
    const auto mean_with = [&](double q) { return math::geometric_mean(window(a.before).with(a.slot, q), 0); };
    const Real slope = (mean_with(a.q + h) - mean_with(a.q - h)) / (2 * h);
    RC_ASSERT(std::fabs(slope - lambda(a) / M) <= 1e-6 * lambda(a) / M);
    if (a.q > a.replaced()) RC_ASSERT(lambda(a) / M < 1 / M);
  });
}

TEST(ChannelNormLemma, P8_Means) {
  check_property(kCases, [] {
    const Entries a = *any_window();
    const double am = math::arithmetic_mean(window(a)), gm = math::geometric_mean(window(a), 0);
    const double least = *std::min_element(a.begin(), a.end()), most = *std::max_element(a.begin(), a.end());
    RC_ASSERT(am >= gm * (1 - 1e-12));
    RC_ASSERT(least * (1 - 1e-12) <= gm);
    RC_ASSERT(gm <= most * (1 + 1e-12));
    Entries scaled = a;
    for (double& v : scaled) v *= 7;
    RC_ASSERT(std::fabs(math::geometric_mean(window(scaled), 0) - 7 * gm) <= 1e-12 * 7 * gm);
    if (a.size() < 2) return;
    RC_ASSERT(std::fabs(math::variance_of_roots(window(scaled), 1) - 7 * math::variance_of_roots(window(a), 1)) <=
              1e-9 * math::arithmetic_mean(window(scaled)));
  });
}

// Counts how many of 2,000 random windows, arrivals and layers are of each kind, so that the properties above cannot
// pass for lack of cases.
TEST(ChannelNormLemma, GeneratorsReachWhatThePropertiesPromise) {
  std::map<std::string, int> reached;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Entries w = any_window(2)(rc::Random(seed)).value();
    const auto [least, most] = std::minmax_element(w.begin(), w.end());
    const auto zeros = std::size_t(std::count(w.begin(), w.end(), 0));
    reached["equal entries"] += *least == *most;
    reached["one zero"] += zeros == 1;
    reached["all zero but one"] += zeros == w.size() - 1;
    reached["over two decades"] += zeros == 0 && *most > 100 * *least;
    reached["over four decades"] += zeros == 0 && *most > 1e4 * *least;
    reached["one entry"] += any_window()(rc::Random(seed)).value().size() == 1;
    const Arrival a = any_arrival()(rc::Random(seed)).value();
    for (const std::string ddof : {"0", "1"})
      reached[!fires(a, std::stoi(ddof)) ? "quiet, ddof " + ddof
              : a.q > a.replaced()       ? "fires upwards, ddof " + ddof
                                         : "fires downwards, ddof " + ddof] += 1;
    const std::vector<Arrival> layer = rc::gen::exec(any_layer)(rc::Random(seed)).value();
    if (layer.size() > 1) reached[fires(layer, Granularity::pooled, 1) ? "pooled fires" : "pooled is quiet"] += 1;
  }
  for (const char* what :
       {"equal entries", "one zero", "all zero but one", "over two decades", "over four decades", "one entry"})
    EXPECT_GE(reached[what], 50) << what;
  for (const char* what : {"quiet, ddof 0", "quiet, ddof 1", "fires upwards, ddof 0", "fires upwards, ddof 1",
                           "fires downwards, ddof 0", "fires downwards, ddof 1", "pooled fires", "pooled is quiet"})
    EXPECT_GE(reached[what], 200) << what;
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

// 99 channels have windows of ones. In one channel, q repeats the values 1, 1, 1, 100, so AM - GM is 22.6. This is
// below the window's own threshold of 81, but above the pooled threshold of 0.8.
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
