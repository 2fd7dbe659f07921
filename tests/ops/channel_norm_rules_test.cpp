// How channel_norm behaves over several calls and on unusual data.
#include <cmath>

#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

struct Layer {
  Options options;
  ChannelNormState state;
  Tensor gamma, beta;

  Layer(const Options& o, std::int64_t C, Device device, DType dtype = DType::f64)
      : options(o),
        state(ChannelNormState::create(o, C, dtype, device)),
        gamma(randn({C}, 91).to(dtype).to(device)),
        beta(randn({C}, 92).to(dtype).to(device)) {}
  Var forward(Tape& tape, const Var& x, const Tensor* mask = nullptr, bool training = true) const {
    return channel_norm(x, tape.constant(gamma), tape.constant(beta), mask, state, options, training);
  }
  // y and dx.
  std::pair<Tensor, Tensor> step(const Tensor& x, const Tensor& dy, const Tensor* mask = nullptr) const {
    Tape tape;
    const Var xv = tape.variable(x.to(gamma.dtype()).to(gamma.device()));
    const Var y = forward(tape, xv, mask);
    tape.backward(y, dy.to(gamma.dtype()).to(gamma.device()));
    return {y.value(), tape.grad(xv)};
  }
};

void expect_same_state(const ChannelNormState& a, const ChannelNormState& b, const std::string& what) {
  for (const auto& [name, buffer] : b.named())
    EXPECT_TRUE(identical(a.named().at(name), buffer)) << what << ", " << name;
}

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

TEST(ChannelNormRules, PN_3_StationaryStreamReachesLambdaOverGamma) {
  Options o = Options::pn_star_released();
  o.eps = 0;
  const Layer layer(o, 1, Device::cpu);
  const Tensor x = randn({5, 1}, 1), dy = randn({5, 1}, 2);
  std::pair<Tensor, Tensor> last;
  for (int t = 0; t < 400; ++t) last = layer.step(x, dy);
  double lambda = 0;  // Gamma, the mean of z^2, is 1 in warm-up
  const std::vector<double> y = last.first.values<double>(), up = dy.values<double>();
  const double gamma = item(layer.gamma), beta = item(layer.beta);
  for (int i = 0; i < 5; ++i) lambda += up[i] * gamma * (y[i] - beta) / gamma / 5;
  EXPECT_NEAR(0.1 * item(layer.state.nu_ema), lambda, 1e-12);
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
        Tensor mask = Tensor::zeros({padded_rows}, DType::u8);
        mask.slice(0, rows).copy_from(Tensor::full({rows}, 1, DType::u8));
        mask = mask.to(device);
        for (int t = 0; t < 6; ++t) {
          const Tensor x = randn({padded_rows, C}, 10 + t, 3, 1), dy = randn({padded_rows, C}, 40 + t);
          dy.slice(rows, padded_rows).zero();
          const auto [y, dx] = plain.step(x.slice(0, rows), dy.slice(0, rows));
          const auto [padded_y, padded_dx] = padded.step(x, dy, &mask);
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

TEST(ChannelNormRules, BackwardOfEvaluationWritesNothing) {
  for (Device device : devices()) {
    const Layer layer(Options::un(), 2, device);
    layer.step(randn({4, 2}, 1), randn({4, 2}, 2));
    const ChannelNormState before = layer.state.snapshot();
    Tape tape;
    const Var x = tape.variable(randn({4, 2}, 3).to(device));
    tape.backward(layer.forward(tape, x, nullptr, /*training=*/false), randn({4, 2}, 4).to(device));
    expect_same_state(layer.state, before, name(device));
  }
}

// One step 400 times too large: the window forgets it, run_var only with hold_on_skip.
TEST(ChannelNormRules, UN_19_OneStepFourHundredTimesTooLarge) {
  for (bool hold : {false, true}) {
    Options o = filtered(Granularity::layer_sum);
    o.hold_on_skip = hold;
    const Layer layer(o, 4, Device::cpu);
    for (int t = 0; t < 30; ++t) layer.step(randn({64, 4}, t), randn({64, 4}, 99));
    const std::int64_t skips = std::int64_t(layer.state.skips.item());
    const double run_var = item(layer.state.run_var);
    const Tensor y = layer.step(randn({64, 4}, 50, 400), randn({64, 4}, 99)).first;
    EXPECT_EQ(layer.state.skips.item(), skips + 1);
    for (double v : y.values<double>()) EXPECT_LT(std::fabs(v), 20);
    if (hold) {
      EXPECT_EQ(item(layer.state.run_var), run_var);
    } else {
      EXPECT_GT(item(layer.state.run_var), 1000 * run_var);
    }
    for (double q : layer.state.win_sq.values<double>()) EXPECT_LT(q, 5);
  }
}

// NaN and infinity in one channel: it alone is held, writes nothing, and the others go on as if nothing had happened.
TEST(ChannelNormRules, NonFiniteChannelsAreHeld) {
  for (Device device : devices())
    for (double bad : {double(NAN), double(INFINITY)}) {
      const Layer layer(with_warmup(Options::un(), 0), 2, device), clean(with_warmup(Options::un(), 0), 2, device);
      for (int t = 0; t < 9; ++t) {
        const Tensor x = randn({5, 2}, t), dy = randn({5, 2}, 70 + t);
        const Tensor spoiled = x.clone();
        if (t == 6) spoiled.data<double>()[2] = bad;  // row 1, channel 0
        const ChannelNormState before = layer.state.snapshot();
        const auto [y, dx] = layer.step(spoiled, dy);
        const auto [clean_y, clean_dx] = clean.step(x, dy);
        for (std::int64_t i = 1; i < 10; i += 2) {
          EXPECT_EQ(item(y, i), item(clean_y, i));
          EXPECT_EQ(item(dx, i), item(clean_dx, i));
        }
        for (std::int64_t i : {0, 4, 6, 8}) EXPECT_TRUE(std::isfinite(item(y, i)) && std::isfinite(item(dx, i)));
        for (const auto& [name, buffer] : layer.state.named()) {
          if (t != 6 || name == "iters" || name == "skips") continue;
          for (std::int64_t i = 0; i < buffer.size(); i += 2)
            EXPECT_EQ(item(buffer, i), item(before.named().at(name), i)) << name;
        }
      }
      EXPECT_EQ(layer.state.skips.item(), 1);
    }
}

// As released, one infinity stays in run_var for ever and no filter sees it.
TEST(ChannelNormRules, ReleasedFormKeepsInfinity) {
  Options o = with_warmup(Options::un_released(), 0);
  o.filtration = true;
  const Layer layer(o, 1, Device::cpu);
  for (int t = 0; t < 6; ++t) layer.step(randn({3, 1}, t), randn({3, 1}, 9));
  const double skips = layer.state.skips.item();
  layer.step(Tensor::full({3, 1}, INFINITY, DType::f64), randn({3, 1}, 9));
  EXPECT_EQ(layer.state.skips.item(), skips);
  for (int t = 0; t < 20; ++t) layer.step(randn({3, 1}, t), randn({3, 1}, 9));
  EXPECT_TRUE(std::isinf(item(layer.state.run_var)));
}

// A batch of padding alone has no statistics.
TEST(ChannelNormRules, OnlyPaddingIsHeld) {
  for (Device device : devices())
    for (const Options& o : {Options::un(), Options::bn(), Options::un_released(), Options::pn_star_released()}) {
      const Layer layer(o, 2, device);
      layer.step(randn({4, 2}, 1), randn({4, 2}, 2));
      const ChannelNormState before = layer.state.snapshot();
      const Tensor mask = Tensor::zeros({4}, DType::u8, device);
      const auto [y, dx] = layer.step(randn({4, 2}, 3), randn({4, 2}, 4), &mask);
      for (std::int64_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(item(y, i)) && std::isfinite(item(dx, i)));
      EXPECT_EQ(layer.state.skips.item(), 1);
      before.iters.copy_from(layer.state.iters);
      before.skips.copy_from(layer.state.skips);
      expect_same_state(layer.state, before, name(device));
    }
}

// A channel that is zero in one step has GM = 0 for M steps: outputs grow by 1 / sqrt(eps). With the filter, and a
// window that is not constant, the step is an outlier downwards and the window never sees the zero.
TEST(ChannelNormRules, UN_16_ZeroChannel) {
  for (bool filter : {false, true}) {
    Options o = with_warmup(Options::un(), 0);
    o.filtration = filter;
    const Layer layer(o, 1, Device::cpu);
    for (int t = 0; t < 8; ++t) layer.step(randn({50, 1}, t), randn({50, 1}, 9));
    layer.step(Tensor::zeros({50, 1}, DType::f64), randn({50, 1}, 9));
    double largest = 0;
    for (double v : layer.step(randn({50, 1}, 20), randn({50, 1}, 9)).first.values<double>())
      largest = std::max(largest, std::fabs(v));
    if (filter) {
      EXPECT_LT(largest, 20);
    } else {
      EXPECT_GT(largest, 100);
    }
  }
}

// A constant channel has mean square 4, which UN can divide by; BN is left with its eps.
TEST(ChannelNormRules, ConstantChannel) {
  const Tensor x = Tensor::full({6, 1}, 2, DType::f64), dy = randn({6, 1}, 1);
  Layer un(with_warmup(Options::un(), 0), 1, Device::cpu), bn(Options::bn(), 1, Device::cpu);
  for (int t = 0; t < 9; ++t) {
    const Tensor y = un.step(x, dy).first;
    EXPECT_NEAR(item(y), item(un.gamma) * 2 / std::sqrt(4 + 1e-5) + item(un.beta), 1e-14);
    EXPECT_EQ(item(bn.step(x, dy).first), item(bn.beta));
  }
}

}  // namespace
}  // namespace foldgrad::testing
