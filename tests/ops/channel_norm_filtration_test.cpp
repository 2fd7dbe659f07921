// Tests filtration: single decisions of a layer, and long runs. In a run, the statistics are noisy, and their level
// changes once, for good. Such a lasting change is not an outlier. By default, hardly any of the last 200 iterations,
// which begin 300 iterations after the change, may be skipped, and run_var must be near the new level.
#include <fmt/format.h>

#include <random>

#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

constexpr int kIterations = 800, kChangeAt = 300, kLast = 200;
// The standard deviations of log q over time, and of log(level) across the channels.
constexpr double kNoise = 0.05, kFarApart = 0.7;
constexpr std::int64_t kWidth = 64;

struct Ending {
  double skipped;   // fraction of the last kLast iterations that are skipped
  double farthest;  // largest |run_var / level - 1| of a channel
  bool ever_skipped;
};

// Runs channel_norm on kIterations batches of one row each, in which a channel's q is level * exp(noise). At iteration
// kChangeAt, all levels are multiplied by `factor`. `spread` is the standard deviation of log(level).
Ending end_of(const ChannelNormOptions& o, double spread, double factor, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<double> levels;
  for (std::int64_t c = 0; c < kWidth; ++c) levels.push_back(std::exp(spread * normal(rng)));
  const Layer layer(o, kWidth, Device::cpu);
  const ChannelNormState& state = layer.state;
  double skips_before = 0;
  for (int t = 0; t < kIterations; ++t) {
    if (t == kChangeAt)
      for (double& level : levels) level *= factor;
    if (t == kIterations - kLast) skips_before = state.skips.item();
    std::vector<double> x;
    for (double level : levels) x.push_back(std::sqrt(level * std::exp(kNoise * normal(rng))));
    layer.forward(Tensor::of({1, kWidth}, x));
  }
  Ending ending{(state.skips.item() - skips_before) / kLast, 0, state.skips.item() > 0};
  for (std::int64_t c = 0; c < kWidth; ++c)
    ending.farthest =
        std::max(ending.farthest, std::fabs(state.run_var.data<double>()[c] / levels[std::size_t(c)] - 1));
  return ending;
}

ChannelNormOptions windowed(Granularity granularity, std::int64_t M, bool hold) {
  ChannelNormOptions o = filtered(granularity);
  o.window_forward = M;
  o.hold_on_skip = hold;
  return o;
}

template <class Check>
void for_all(Granularity granularity, bool hold, const Check& check) {
  for (std::int64_t M : {2, 3, 4, 8})
    for (double factor : {1., 1.5, 2., 5., 20., 1 / 1.5, 1 / 2., 1 / 5., 1 / 20.})
      for (unsigned seed : {1u, 2u}) {
        const Ending ending = end_of(windowed(granularity, M, hold), kFarApart, factor, seed);
        SCOPED_TRACE(fmt::format("M = {}, factor {:.2f}, hold_on_skip = {}, seed {}", M, factor, hold, seed));
        check(M, factor, ending);
      }
}

TEST(ChannelNormFiltration, UN_19_LearnsALastingChange) {
  int runs_with_skips = 0;
  for (bool hold : {false, true})
    for_all(ChannelNormOptions::un().granularity, hold, [&](std::int64_t, double, const Ending& ending) {
      EXPECT_LT(ending.skipped, 0.05);
      EXPECT_LT(ending.farthest, 0.1);
      runs_with_skips += ending.ever_skipped;
    });
  EXPECT_GT(runs_with_skips, 144 / 3) << "too few runs skipped an iteration for the test to mean anything";
}

// With `pooled`, the threshold comes from the variance over all channels, so different levels raise it, however small
// the noise is. If all levels are equal, layers with windows of up to 4 end up skipping every iteration; run_var is
// still correct.
TEST(ChannelNormFiltration, UN_19_PooledSkipsNoiseWhereLevelsAreEqual) {
  for (const unsigned seed : {1u, 2u, 3u, 4u})
    for (const std::int64_t M : {2, 3, 4, 8})
      for (const double spread : {0., .1, .3, .7}) {
        const Ending ending = end_of(windowed(Granularity::pooled, M, /*hold=*/false), spread, /*factor=*/1, seed);
        SCOPED_TRACE(fmt::format("M = {}, spread {}, seed {}: {}", M, spread, seed, ending.skipped));
        if (spread > 0) {
          EXPECT_LE(ending.skipped, spread >= .3 ? 0 : M == 2 ? .25 : .05);
        } else if (M <= 4) {
          EXPECT_EQ(ending.skipped, 1);
        }
        EXPECT_LT(ending.farthest, 0.1);
      }
}

// This is why layer_sum is not the default. Each skip writes run_var, which changes slowly, into the windows. The
// variance of the windows falls until every q is an outlier.
TEST(ChannelNormFiltration, UN_19_LayerSumSkipsForEverAfterAChangeInShortWindows) {
  for_all(Granularity::layer_sum, /*hold=*/false, [](std::int64_t M, double factor, const Ending& ending) {
    if (factor != 1) {
      EXPECT_EQ(ending.skipped, M == 8 ? 0 : 1);
    }
  });
}

// A window of equal entries has the threshold 0, so each iteration after the change is skipped. The first 32 skips in a
// row leave run_var unchanged; the 33rd updates it.
TEST(ChannelNormFiltration, HoldsForThirtyTwoIterationsInARow) {
  for (Device device : devices()) {
    const ChannelNormOptions o = windowed(Granularity::pooled, 3, /*hold=*/true);
    const ChannelNormState state = fresh(o, device);
    for (int t = 0; t < 10; ++t) step(o, state, {1}, {1});
    EXPECT_EQ(state.skips.item(), 0);
    const double before = item(state.run_var);
    for (int t = 0; t < 32; ++t) step(o, state, {5}, {1});
    EXPECT_EQ(state.skips.item(), 32);
    EXPECT_EQ(item(state.run_var), before) << name(device);
    step(o, state, {5}, {1});
    EXPECT_DOUBLE_EQ(item(state.run_var), 0.9 * before + 0.1 * 25) << name(device);  // [CN-6]
  }
}

// With hold_on_skip, skips leave run_var unchanged at most 32 times in a row. So run_var reaches the new level even if
// all of the last iterations are skipped.
TEST(ChannelNormFiltration, HeldEstimatesLearnALastingChange) {
  int runs_that_skip_all = 0;
  for_all(Granularity::layer_sum, /*hold=*/true, [&](std::int64_t, double, const Ending& ending) {
    EXPECT_LT(ending.farthest, 0.1);
    runs_that_skip_all += ending.skipped == 1;
  });
  EXPECT_GT(runs_that_skip_all, 72 / 2);
}

// Returns true if a layer of 1,030 channels skips an iteration in which q is `factor` in `channel` and 1 in all other
// channels. All entries of the windows are 1. If `spread` is not -1, the entry that q replaces in channel `spread` is
// 1e6 instead.
bool skips(Granularity granularity, Device device, std::int64_t channel, double factor, std::int64_t spread = -1) {
  const Layer layer(filtered(granularity), 1030, device);
  set_iterations(layer.state, 9);
  std::vector<double> window(4 * 1030, 1), x(1030, 1);
  if (spread >= 0) window[10 % 4 * 1030 + spread] = 1e6;
  x[channel] = std::sqrt(factor);
  Tensor(layer.state.win_sq).copy_from(Tensor::of<double>({4, 1030}, window));
  layer.forward(Tensor::of<double>({1, 1030}, x));
  return layer.state.skips.item() == 1;
}

// The numbers fit CUDA: a warp has 32 adjacent channels, and the channels of one thread are 512 apart.
TEST(ChannelNormFiltration, UN_19_EveryChannelCountsInALayersDecision) {
  for (const Device device : devices())
    for (const Granularity g : {Granularity::layer_any, Granularity::layer_sum, Granularity::pooled}) {
      EXPECT_FALSE(skips(g, device, 0, 1));
      for (const std::int64_t c : {0, 32, 511, 512, 1029}) {
        EXPECT_TRUE(skips(g, device, c, 16)) << name(device) << ", channel " << c;
        // Except with layer_any, the 1e6 in another channel's window raises the layer's threshold.
        EXPECT_EQ(skips(g, device, 7, 16, c), g == Granularity::layer_any) << name(device) << ", spread " << c;
      }
    }
}

// By Corollary 3.2, if the test fires upwards, the true gradient, lambda / M times G, is below 1/M of the estimate.
// With `pooled`, this can fail. For example, let 2 replace 1 in the window (1, 1e4, 1e4, 1e4) of one channel, and let
// the windows of the other 63 channels be ones. AM - GM of the new window is 7500.5 - 1189.2, above the pooled
// threshold 4 V(sqrt) = 456, so 2 is an outlier with lambda = GM / q = 595. With `channel`, the threshold is the
// window's own, 9801, and 2 is not an outlier.
TEST(ChannelNormFiltration, Corollary_3_2_FailsUpwardsWithPooled) {
  for (const Device device : devices())
    for (const Granularity g : {Granularity::pooled, Granularity::channel}) {
      const Layer layer(filtered(g), 64, device);
      set_iterations(layer.state, 11);
      std::vector<double> window(4 * 64, 1), x(64, 1);
      for (int row = 1; row < 4; ++row) window[row * 64 + 7] = 1e4;
      x[7] = std::sqrt(2.);
      Tensor(layer.state.win_sq).copy_from(Tensor::of<double>({4, 64}, window));
      layer.forward(Tensor::of<double>({1, 64}, x));
      EXPECT_EQ(layer.state.skips.item(), g == Granularity::pooled) << name(device);
    }
  EXPECT_NEAR(std::pow(2 * 1e12, 0.25) / 2, 594.6, 0.05);
}

}  // namespace
}  // namespace foldgrad::testing
