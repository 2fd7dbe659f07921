// How channel_norm behaves on outliers, on values that are not finite, and on channels and batches of nothing.
#include <cmath>

#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

// One step 400 times too large: the window forgets it, run_var only with hold_on_skip.
TEST(ChannelNormUnusualData, UN_19_OneStepFourHundredTimesTooLarge) {
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
TEST(ChannelNormUnusualData, NonFiniteChannelsAreHeld) {
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
TEST(ChannelNormUnusualData, ReleasedFormKeepsInfinity) {
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
TEST(ChannelNormUnusualData, OnlyPaddingIsHeld) {
  for (Device device : devices())
    for (const Options& o : {Options::un(), Options::bn(), Options::un_released()}) {
      const Layer layer(o, 2, device);
      layer.step(randn({4, 2}, 1), randn({4, 2}, 2));
      ChannelNormState before = layer.state.snapshot();
      const auto [y, dx] = layer.step(randn({4, 2}, 3), randn({4, 2}, 4), /*counted=*/0);
      for (std::int64_t i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(item(y, i)) && std::isfinite(item(dx, i)));
      EXPECT_EQ(layer.state.skips.item(), 1);
      before.iters.copy_from(layer.state.iters);
      before.skips.copy_from(layer.state.skips);
      expect_same_state(layer.state, before, name(device));
    }
}

// Padding leaves the statistics alone, whatever is in it, in the last block with tokens and after it.
TEST(ChannelNormUnusualData, CN_1_PaddingDoesNotCount) {
  Tensor x = randn({130, 2}, 1);
  for (std::int64_t i = 2 * 60; i < x.size(); ++i) x.data<double>()[i] = NAN;
  for (Device device : devices()) {
    const Layer layer(Options::bn(), 2, device);
    layer.step(x, Tensor::zeros({130, 2}, DType::f64), /*counted=*/60);
    for (const Tensor& running : {layer.state.run_mean, layer.state.run_var})
      for (double v : running.values<double>()) EXPECT_TRUE(std::isfinite(v)) << name(device);
  }
}

// A channel that is zero in one step has GM = 0 for M steps: outputs grow by 1 / sqrt(eps). With the filter, and a
// window that is not constant, the step is an outlier downwards and the window never sees the zero.
TEST(ChannelNormUnusualData, UN_16_ZeroChannel) {
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
TEST(ChannelNormUnusualData, ConstantChannel) {
  const Tensor x = Tensor::full({6, 1}, 2, DType::f64), dy = randn({6, 1}, 1);
  Layer un(with_warmup(Options::un(), 0), 1, Device::cpu), bn(Options::bn(), 1, Device::cpu);
  for (int t = 0; t < 9; ++t) {
    const Tensor y = un.step(x, dy).first;
    EXPECT_NEAR(item(y), item(un.gamma) * 2 / std::sqrt(4 + 1e-5) + item(un.beta), 1e-14);
    EXPECT_EQ(item(bn.step(x, dy).first), item(bn.beta));
  }
}

// A launch has at most 1024 blocks of 64 rows; the rows beyond are taken in turns.
TEST(ChannelNormUnusualData, MoreRowsThanOneLaunchHasBlocksFor) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  const Tensor x = randn({1030 * 64 + 5, 1}, 1, 1, 0.3), dy = randn(x.shape(), 2, 1, 0.3);
  const Layer cpu(Options::bn(), 1, Device::cpu), cuda(Options::bn(), 1, Device::cuda);
  const auto [y, dx] = cpu.step(x, dy);
  const auto [cuda_y, cuda_dx] = cuda.step(x, dy);
  EXPECT_TRUE(close(cuda_y, y, 1e-12));
  EXPECT_TRUE(close(cuda_dx, dx, 1e-12));
  for (const auto& [name, buffer] : cpu.state.named())
    EXPECT_TRUE(close(cuda.state.named().at(name), buffer, 1e-12)) << name;
}

// Around 1e4, E[x^2] - E[x]^2 leaves nothing of a variance of 1 in f32.
TEST(ChannelNormUnusualData, CN_1_ChannelsFarFromZeroKeepTheirVariance) {
  const Tensor x = randn({1000, 3}, 7, 1, 1e4).to(DType::f32);
  const Layer exact(Options::bn(), 3, Device::cpu);
  const Tensor want = exact.step(x.to(DType::f64), randn({1000, 3}, 8)).first;
  for (Device device : devices()) {
    const Layer layer(Options::bn(), 3, device, DType::f32);
    const Tensor y = layer.step(x, randn({1000, 3}, 8)).first;
    // The mean itself is known to half a unit of 1e4 in f32, about 5e-4.
    EXPECT_TRUE(close(y.to(Device::cpu), want, 2e-3)) << name(device);
    EXPECT_TRUE(close(layer.state.run_var, exact.state.run_var, 1e-5)) << name(device);
  }
}

}  // namespace
}  // namespace foldgrad::testing
