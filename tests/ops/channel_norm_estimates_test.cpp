// Tests the methods whose dx is an estimate. Compares dx with its documented formula and with the true gradient, which
// central differences give, and checks which other gradients are exact.
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

constexpr std::int64_t kRows = 12, kColumns = 3;

// A layer in the middle of training. It has windows and averages from earlier steps, and a batch with padding for the
// next step.
struct Midst {
  Options options;
  ChannelNormState state;
  Tensor x = randn({kRows, kColumns}, 1, 1.3, 0.4), dy = cotangent({kRows, kColumns}),
         gamma = randn({kColumns}, 3, 0.3, 1), beta = randn({kColumns}, 4);
  static constexpr std::int64_t counted = kRows - 2;  // leading rows that are not padding

  Midst(const Options& o, std::int64_t iterations)
      : options(o), state(ChannelNormState::create(o, kColumns, DType::f64)) {
    set_iterations(state, iterations);
    unsigned seed = 10;
    for (auto&& [name, buffer] : state.named()) {
      if (name == "iters" || name == "skips") continue;
      const bool positive = name == "win_sq" || name == "run_var";
      const Tensor values = randn(buffer.shape(), ++seed, 0.2, positive ? 1.5 : 0.4);
      buffer.copy_from(values);
    }
  }
  bool real(std::int64_t r) const { return r < counted; }

  // Returns a case that runs the next step, always from the same state.
  OpCase step() const {
    return {.label = "step", .operands = {x, gamma, beta}, .f = [this](auto& v) {
              return channel_norm(v[0], v[1], v[2], copy_of(state), options, {.training = true, .counted = counted});
            }};
  }
  Tensor dx() const { return run_case(step(), DType::f64, Device::cpu).grads[0]; }
  Tensor dx_by_differences() const { return central_differences(step(), 0); }

  // Returns dx by the documented formula, (h_i - [i in S] z_i psi) / s, where z = x / s and s^2 = variance + eps.
  // `variance` and `psi` have one value per channel.
  Tensor formula(const std::vector<double>& variance, const std::vector<double>& psi) const {
    const Tensor dx = Tensor::empty(x.shape(), DType::f64);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const std::int64_t c = i % kColumns;
      const double s = std::sqrt(variance[c] + options.eps), z = x.data<double>()[i] / s;
      const double h = dy.data<double>()[i] * gamma.data<double>()[c];
      dx.data<double>()[i] = (h - (real(i / kColumns) ? z * psi[c] : 0)) / s;
    }
    return dx;
  }
  double q(std::int64_t c) const {
    double sum = 0;
    for (std::int64_t r = 0; r < kRows; ++r)
      if (real(r)) sum += std::pow(x.data<double>()[r * kColumns + c], 2);
    return sum / double(counted);
  }
  // Returns G of channel c for var_hat = `variance`. The sum includes padding rows, because their dy is not 0 here.
  double G(std::int64_t c, double variance) const {
    double sum = 0;
    for (std::int64_t r = 0; r < kRows; ++r)
      sum += dy.data<double>()[r * kColumns + c] * gamma.data<double>()[c] * x.data<double>()[r * kColumns + c];
    return sum / std::sqrt(variance + options.eps) / double(counted);
  }
};

double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a.data<double>()[i] - b.data<double>()[i]));
  return most;
}

// Returns the geometric mean of channel c's window after q has replaced row t mod M.
double window_mean(const Midst& m, std::int64_t c, double q) {
  const std::int64_t M = m.options.window_forward, slot = (std::int64_t(m.state.iters.item()) + 1) % M;
  double logs = 0;
  for (std::int64_t k = 0; k < M; ++k) logs += std::log(k == slot ? q : item(m.state.win_sq, k * kColumns + c));
  return std::exp(logs / double(M));
}

// UN computes dx with psi, an average of G over this step and earlier ones. The true gradient has (lambda / M) G
// instead of psi, with lambda = GM / q, because the older entries of the window are constants. Central differences
// confirm this gradient. dx is off by |z| |psi - (lambda / M) G| / s, which exceeds 0.1 for at least one row of each
// channel.
TEST(ChannelNormEstimates, UN_17_UnDiffersFromTheGradientByItsPsi) {
  const Midst m(with_warmup(Options::un(), 0), 9);
  std::vector<double> variance, estimate, truth;
  for (std::int64_t c = 0; c < kColumns; ++c) {
    variance.push_back(window_mean(m, c, m.q(c)));
    const double G = m.G(c, variance.back());
    double sum = G;
    for (std::int64_t k = 0; k < 4; ++k)
      if (k != 10 % 4) sum += item(m.state.win_g, k * kColumns + c);
    estimate.push_back(0.9 * item(m.state.psi_ema, c) + 0.1 * sum / 4);
    truth.push_back(variance.back() / m.q(c) / 4 * G);
  }
  const Tensor gradient = m.dx_by_differences(), dx = m.dx();
  EXPECT_TRUE(close(gradient, m.formula(variance, truth), 1e-9));
  EXPECT_TRUE(close(dx, m.formula(variance, estimate), 1e-12));
  for (std::int64_t c = 0; c < kColumns; ++c) {
    double off = 0;
    for (std::int64_t r = 0; r < kRows; ++r)
      off = std::max(off, std::abs(item(dx, r * kColumns + c) - item(gradient, r * kColumns + c)));
    EXPECT_GT(off, 0.1) << "channel " << c;
  }
}

// Tests all methods that estimate dx. Central differences show that dx is not the gradient, and that dgamma and dbeta
// are exact. There is one exception: in the released UN, dgamma is r times the gradient.
TEST(ChannelNormEstimates, CN_3_EstimatesOfDxLeaveDgammaAndDbetaExact) {
  struct Case {
    const char* name;
    Midst midst;
    bool r_in_dgamma = false;
  };
  const Case cases[] = {
      {"un", Midst(with_warmup(Options::un(), 0), 9)},
      {"un_released in warm-up", Midst(Options::un_released(), 9)},
      {"un_released", Midst(with_warmup(Options::un_released(), 0), 9)},
      {"un_released with r", Midst(with_warmup(Options::un_released(), 0), 2000), true},
      {"mabn", Midst(with_warmup(Options::mabn(), 0), 9)},
      {"mabn_released", Midst(with_warmup(Options::mabn_released(), 0), 9)},
      {"mabn_released with r", Midst(with_warmup(Options::mabn_released(), 0), 2000)},
      {"pn_star", Midst(with_warmup(Options::pn_star(), 0), 9)},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const OpCase step = c.midst.step();
    const std::vector<Tensor> got = run_case(step, DType::f64, Device::cpu).grads;
    // The elements of dx are about 1. If no element differed by 0.05, dx would not be an estimate.
    EXPECT_GT(largest_difference(got[0], central_differences(step, 0)), 0.05);
    EXPECT_TRUE(close(got[2], central_differences(step, 2), 1e-9));
    const Tensor dgamma = central_differences(step, 1);
    if (!c.r_in_dgamma) {
      EXPECT_TRUE(close(got[1], dgamma, 1e-9));
      continue;
    }
    for (std::int64_t k = 0; k < kColumns; ++k) {
      const double var_hat = window_mean(c.midst, k, c.midst.q(k)), eps = c.midst.options.eps,
                   r = std::sqrt(var_hat + eps) / std::sqrt(item(c.midst.state.run_var, k) + eps);
      EXPECT_NEAR(item(got[1], k), r * item(dgamma, k), 1e-9);
      EXPECT_GT(std::abs(r - 1), 1e-3);
    }
  }
}

// With alpha_backward = 1, psi stays 0. So dx is the gradient of y with var_hat as a constant.
TEST(ChannelNormEstimates, CN_2_WithoutPsiDxIsTheGradientWithAConstantVariance) {
  Options o = with_warmup(Options::un(), 0);
  o.backward = BackwardAverage::exponential;
  o.alpha_backward = 1;
  Midst m(o, 9);
  set(m.state.psi_ema, 0);
  std::vector<double> variance;
  for (std::int64_t c = 0; c < kColumns; ++c) variance.push_back(window_mean(m, c, m.q(c)));
  // Inference normalizes with run_var, which is a constant, so we store these variances there.
  ChannelNormState constant = ChannelNormState::create(o, kColumns, DType::f64);
  constant.run_var.copy_from(Tensor::of({kColumns}, variance));
  OpCase evaluation = m.step();
  evaluation.f = [&](auto& v) { return channel_norm(v[0], v[1], v[2], constant, o, {.training = false}); };
  EXPECT_TRUE(close(m.dx(), central_differences(evaluation, 0), 1e-9));
  EXPECT_GT(largest_difference(m.dx(), m.dx_by_differences()), 0.05) << "dx must not be the gradient of the layer";
}

}  // namespace
}  // namespace foldgrad::testing
