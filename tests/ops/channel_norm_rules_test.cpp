// How channel_norm behaves over several calls.
#include <omp.h>

#include <cmath>

#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

// The same data again and again: var_hat is q, and psi closes in on G by alpha per step.
TEST(ChannelNormRules, UN_17_StationaryStream) {
  for (Device device : devices()) {
    Options o = with_warmup(Options::un(), 0);
    o.eps = 0;
    const Layer layer(o, 3, device);
    const Tensor x = randn({5, 3}, 1), dy = randn({5, 3}, 2);
    std::vector<double> first, G;
    for (int t = 1; t <= 24; ++t) {
      layer.step(x, dy);
      const std::vector<double> psi = layer.state.psi_ema.values<double>(), win_g = layer.state.win_g.values<double>();
      if (t == 4) {
        G.assign(win_g.begin(), win_g.begin() + 3);
        for (int c = 0; c < 3; ++c) first.push_back(std::fabs(psi[c] - G[c]));
      }
      for (int c = 0; c < 3 && t > 4; ++c)
        EXPECT_NEAR(std::fabs(psi[c] - G[c]), std::pow(0.9, t - 4) * first[c], 1e-13);
    }
  }
}

// All inputs times c, and the buffers of squares times c^2: the same outputs and decisions, gradients through c.
TEST(ChannelNormRules, Equivariance) {
  for (Granularity g : {Granularity::channel, Granularity::layer_any, Granularity::layer_sum, Granularity::pooled}) {
    Options o = filtered(g);
    o.eps = 0;
    const Layer one(o, 3, Device::cpu), other(o, 3, Device::cpu);
    const double c = 7;
    set(other.state.run_var, c * c);
    for (int t = 0; t < 20; ++t) {
      const Tensor x = randn({6, 3}, 10 + t, t == 13 ? 50 : 1), dy = randn({6, 3}, 40 + t);
      Tensor scaled = x.clone();
      for (std::int64_t i = 0; i < x.size(); ++i) scaled.data<double>()[i] *= c;
      const auto [y, dx] = one.step(x, dy);
      const auto [scaled_y, scaled_dx] = other.step(scaled, dy);
      EXPECT_TRUE(close(scaled_y, y, 1e-11));
      for (std::int64_t i = 0; i < x.size(); ++i) scaled_dx.data<double>()[i] *= c;
      EXPECT_TRUE(close(scaled_dx, dx, 1e-11));
      EXPECT_EQ(one.state.skips.item(), other.state.skips.item());
    }
    EXPECT_GT(one.state.skips.item(), 0);
  }
}

// Padding at the end, with any values and no gradient, changes no bit of the rest, across the blocks of 64 rows too.
TEST(ChannelNormRules, CN_1_PaddingChangesNoBit) {
  Options hold = filtered(Granularity::layer_sum);
  hold.hold_on_skip = true;
  for (Device device : devices())
    for (DType dtype : {DType::f32, DType::f64})
      for (const Options& o : {hold, Options::bn(), Options::mabn(), Options::pn_star()}) {
        const std::int64_t rows = 60, padded_rows = 140, C = 5;
        const Layer plain(o, C, device, dtype), padded(o, C, device, dtype);
        for (int t = 0; t < 6; ++t) {
          const Tensor x = randn({padded_rows, C}, 10 + t, 3, 1), dy = randn({padded_rows, C}, 40 + t);
          dy.slice(rows, padded_rows).zero();
          const auto [y, dx] = plain.step(x.slice(0, rows), dy.slice(0, rows));
          const auto [padded_y, padded_dx] = padded.step(x, dy, rows);
          EXPECT_TRUE(identical(padded_y.slice(0, rows), y));
          EXPECT_TRUE(identical(padded_dx.slice(0, rows), dx));
          EXPECT_EQ(padded_dx.to(DType::f64).slice(rows, padded_rows).values<double>(),
                    std::vector<double>((padded_rows - rows) * C));
          expect_same_state(padded.state, plain.state, name(device));
        }
      }
}

// Two forwards wait for their backward: each writes its own slot, and psi_ema advances in the order of the backwards.
TEST(ChannelNormRules, BackwardBelongsToItsForward) {
  for (Device device : devices()) {
    Options o = Options::un();
    const Layer layer(o, 2, device), apart(o, 2, device);
    const Tensor x1 = randn({4, 2}, 1).to(device), x2 = randn({4, 2}, 2).to(device), dy = randn({4, 2}, 3).to(device);
    Tape first, second;
    const Var y1 = layer.forward(first, first.variable(x1)), y2 = layer.forward(second, second.variable(x2));
    EXPECT_EQ(layer.state.iters.item(), 2);
    EXPECT_EQ(layer.state.win_g.values<double>(), std::vector<double>(8));
    second.backward(y2, dy);
    first.backward(y1, dy);
    apart.step(x1, dy);
    apart.step(x2, dy);
    EXPECT_TRUE(identical(layer.state.win_g, apart.state.win_g));
    EXPECT_TRUE(identical(layer.state.win_sq, apart.state.win_sq));
    for (std::int64_t c = 0; c < 2; ++c)
      EXPECT_NEAR(item(layer.state.psi_ema, c),
                  0.9 * 0.1 * item(layer.state.win_g, 4 + c) + 0.1 * item(layer.state.win_g, 2 + c), 1e-15);
  }
}

TEST(ChannelNormRules, ForwardWithoutGradientLeavesGradientBuffers) {
  for (Device device : devices()) {
    const Layer layer(with_warmup(Options::un(), 0), 2, device);
    for (int t = 0; t < 6; ++t) layer.step(randn({4, 2}, t), randn({4, 2}, 9));
    const ChannelNormState before = layer.state.snapshot();
    Tape tape(/*recording=*/false);
    layer.forward(tape, tape.constant(randn({4, 2}, 20).to(device)));
    EXPECT_EQ(layer.state.iters.item(), 7);
    EXPECT_TRUE(identical(layer.state.win_g, before.win_g));
    EXPECT_TRUE(identical(layer.state.psi_ema, before.psi_ema));
    EXPECT_FALSE(identical(layer.state.win_sq, before.win_sq));
  }
}

TEST(ChannelNormRules, SnapshotsRepeatAStep) {
  for (Device device : devices()) {
    const Layer layer(filtered(Granularity::layer_sum), 3, device, DType::f32);
    for (int t = 0; t < 6; ++t) layer.step(randn({4, 3}, t), randn({4, 3}, 9));
    const ChannelNormState before = layer.state.snapshot();
    const auto [y, dx] = layer.step(randn({4, 3}, 30), randn({4, 3}, 31));
    const ChannelNormState after = layer.state.snapshot();
    layer.state.restore(before);
    const auto [again_y, again_dx] = layer.step(randn({4, 3}, 30), randn({4, 3}, 31));
    EXPECT_TRUE(identical(again_y, y));
    EXPECT_TRUE(identical(again_dx, dx));
    expect_same_state(layer.state, after, name(device));
  }
}

// Sums are formed in blocks that the number of threads doesn't change.
TEST(ChannelNormRules, AnyNumberOfThreadsGivesTheSameBits) {
  const int threads = omp_get_max_threads();
  std::vector<std::pair<Tensor, Tensor>> results;
  std::vector<ChannelNormState> states;
  for (int n : {1, 2, 3}) {
    omp_set_num_threads(n);
    const Layer layer(filtered(Granularity::layer_sum), 300, Device::cpu, DType::f32);
    for (int t = 0; t < 6; ++t) results.push_back(layer.step(randn({200, 300}, t), randn({200, 300}, 9)));
    states.push_back(layer.state);
  }
  omp_set_num_threads(threads);
  for (std::size_t i = 6; i < results.size(); ++i) {
    EXPECT_TRUE(identical(results[i].first, results[i % 6].first));
    EXPECT_TRUE(identical(results[i].second, results[i % 6].second));
  }
  for (const ChannelNormState& state : states) expect_same_state(state, states[0], "threads");
}

TEST(ChannelNormRules, BackwardOfEvaluationWritesNothing) {
  for (Device device : devices()) {
    const Layer layer(Options::un(), 2, device);
    layer.step(randn({4, 2}, 1), randn({4, 2}, 2));
    const ChannelNormState before = layer.state.snapshot();
    Tape tape;
    const Var x = tape.variable(randn({4, 2}, 3).to(device));
    tape.backward(layer.forward(tape, x, {}, /*training=*/false), randn({4, 2}, 4).to(device));
    expect_same_state(layer.state, before, name(device));
  }
}

}  // namespace
}  // namespace foldgrad::testing
