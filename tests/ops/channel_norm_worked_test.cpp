// Compares channel_norm with numbers that can be computed by hand.
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

constexpr double kRounding = 1e-14;

// x = (1, 3) has q = 5, and eps = 11 makes rstd = 1/4, so z = (1/4, 3/4). With dy = (4, 0) and gamma = 2, h = (8, 0),
// G = 1, and dx = (h - z) / 4.
TEST(ChannelNorm, UN_1_CN_1_CN_2_CN_3_WorkedByHand) {
  for (Device device : devices()) {
    Options o = Options::un();
    o.eps = 11;
    const ChannelNormState state = fresh(o, device);
    const ChannelResult r = step(o, state, {1, 3}, {4, 0}, 2, 1);
    EXPECT_EQ(r.y, (std::vector<double>{1.5, 2.5}));
    EXPECT_EQ(r.dx, (std::vector<double>{1.9375, -0.1875}));
    EXPECT_EQ(r.dgamma, std::vector<double>{1});
    EXPECT_EQ(r.dbeta, std::vector<double>{4});
    EXPECT_EQ(state.iters.item(), 1);
    EXPECT_EQ(item(state.win_sq, 1), 5);
    EXPECT_EQ(item(state.win_g, 1), 1);
    EXPECT_NEAR(item(state.run_var), 0.9 + 0.5, kRounding);
    EXPECT_NEAR(item(state.psi_ema), 0.1, kRounding);
  }
}

// x = (1, 3) has the mean 2 and the variance v = 1. With eps = 3, rstd = 1/2 and z = (-1/2, 1/2). h = (4, 0) has the
// mean 2, so G = -1 and dx = (h - 2 + z) / 2. run_var averages the unbiased variance, v 2/1 = 2.
TEST(ChannelNorm, BN_1_BN_2_WorkedByHand) {
  for (Device device : devices()) {
    Options o = Options::bn();
    o.eps = 3;
    o.alpha_forward = 0.5;
    const ChannelNormState state = fresh(o, device);
    const ChannelResult r = step(o, state, {1, 3}, {2, 0}, 2, 5);
    EXPECT_EQ(r.y, (std::vector<double>{4, 6}));
    EXPECT_EQ(r.dx, (std::vector<double>{0.75, -0.75}));
    EXPECT_EQ(item(state.run_mean), 1);
    EXPECT_EQ(item(state.run_var), 1.5);
  }
}

// In a constant channel, z = 0. The variance, 0, is clamped to eps = 1/4, so no gradient flows through the variance.
TEST(ChannelNorm, RBN_1_ConstantChannel) {
  for (Device device : devices()) {
    Options o = Options::rbn();
    o.eps = 0.25;
    const ChannelNormState state = fresh(o, device);
    const ChannelResult r = step(o, state, {7, 7}, {2, 0}, 1, 5);
    EXPECT_EQ(r.y, (std::vector<double>{5, 5}));
    EXPECT_EQ(r.dx, (std::vector<double>{2, -2}));
    EXPECT_NEAR(item(state.run_var), 0.95, kRounding);
  }
}

// After iteration 5 the window has q = 1, 2, 4, 8, so GM = 2^(6/4), and psi = (1 - alpha) AM(G) + alpha psi_ema.
TEST(ChannelNorm, CN_5_CN_6_UN_16_UN_17_WindowsAndExponentialAverages) {
  for (Device device : devices()) {
    Options o = with_warmup(Options::un(), 0);
    o.eps = 0;
    const ChannelNormState state = fresh(o, device);
    double psi_ema = 0;
    std::vector<double> G;
    for (double q : {99., 1., 2., 4.}) {
      const ChannelResult r = step(o, state, {std::sqrt(q)}, {1});
      EXPECT_NEAR(r.dx[0], 0, kRounding);  // exact: y does not depend on the scale of a single value
      G.push_back(1);
      psi_ema = 0.9 * psi_ema + 0.1;
    }
    const double root = std::sqrt(std::pow(2., 1.5)), z = std::sqrt(8) / root;
    const ChannelResult r = step(o, state, {std::sqrt(8.)}, {1});
    EXPECT_NEAR(r.y[0], z, kRounding);
    const double psi = 0.9 * psi_ema + 0.1 * (3 + z) / 4;
    EXPECT_NEAR(r.dx[0], (1 - psi * z) / root, kRounding);
    EXPECT_NEAR(item(state.psi_ema), psi, kRounding);
    const std::vector<double> squares = state.win_sq.values<double>(),
                              wanted{4, 8, 1, 2};  // iteration t is in row t mod 4
    for (int k = 0; k < 4; ++k) EXPECT_NEAR(squares[k], wanted[k], kRounding);
    EXPECT_NEAR(item(state.win_g, 1), z, kRounding);
    double run_var = 1;
    for (double var_hat : {99., 1., 2., 4., root * root}) run_var = 0.9 * run_var + 0.1 * var_hat;
    EXPECT_NEAR(item(state.run_var), run_var, 10 * kRounding);
  }
}

}  // namespace
}  // namespace foldgrad::testing
