// channel_norm against the model of channel_norm_model.h, on random histories of all methods and options.
#include "tests/ops/channel_norm_model.h"

#include <gtest/gtest.h>

#include <random>

#include "ops/channel_norm/channel_norm.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"

namespace foldgrad::testing {
namespace {

using Matrix = std::vector<Column>;  // [C][P]

class Generator {
 public:
  explicit Generator(unsigned seed) : rng_(seed) {}
  int below(int n) { return int(rng_() % unsigned(n)); }
  bool coin() { return below(2) == 1; }
  double normal() { return std::normal_distribution<double>()(rng_); }

  ChannelNormOptions options() {
    using O = ChannelNormOptions;
    const O methods[] = {
        O::un(), O::un(),  O::un(),   O::un(),      O::un_released(),     O::mabn(), O::mabn_released(),
        O::bn(), O::rbn(), O::qmbn(), O::pn_star(), O::pn_star_released()};
    O o = methods[below(12)];
    const double alphas[] = {0, 0.5, 0.9, 1}, epss[] = {1e-5, 1e-3, 1};
    o.window_forward = 1 + below(10);
    o.window_backward = coin() ? o.window_forward : 1 + below(10);
    o.warmup = below(12);
    o.alpha_forward = alphas[below(4)];
    o.alpha_backward = coin() ? o.alpha_forward : 0.7;
    o.eps = epss[below(3)];
    o.filtration = coin() && (o.forward == ForwardAverage::geometric || o.forward == ForwardAverage::arithmetic);
    o.granularity = Granularity(below(4));
    o.ddof = below(2);
    o.flag_low = below(4) != 0;
    o.hold_on_skip = coin();
    o.psi_after_skip = PsiAfterSkip(below(3));
    o.mask = StatisticMask(below(4) == 0);
    if (o.form == ChannelForm::paper) o.hold_non_finite = coin();
    return o;
  }
  // A few tokens per channel around a level that steps sometimes leave, upwards or downwards.
  Matrix activations(int P, const Column& levels, bool non_finite) {
    const double jumps[] = {1, 1, 1, 1, 1, 1.5, 20, 400, 1e-3, 0};
    const double jump_of_all = jumps[below(10)];
    Matrix x;
    for (Real level : levels) {
      const double jump = below(4) ? jump_of_all : jumps[below(10)];
      Column column(P);
      for (Real& v : column) v = double(level * jump) * normal();
      if (non_finite && below(30) == 0) column[below(P)] = coin() ? INFINITY : NAN;
      x.push_back(column);
    }
    return x;
  }
  Matrix gradients(int P, int C) {
    Matrix dy(C, Column(P));
    for (Column& column : dy)
      for (Real& v : column) v = normal();
    return dy;
  }
  std::vector<int> mask(int P, bool masked) {
    std::vector<int> real(P, 1);
    for (int& m : real) m = !masked || below(3) != 0;
    return real;
  }

 private:
  std::mt19937 rng_;
};

Tensor matrix(const Matrix& columns, Device device) {
  const std::int64_t C = std::int64_t(columns.size()), P = std::int64_t(columns[0].size());
  std::vector<double> values(P * C);
  for (std::int64_t c = 0; c < C; ++c)
    for (std::int64_t p = 0; p < P; ++p) values[p * C + c] = double(columns[c][p]);
  return Tensor::of({P, C}, values, device);
}
Tensor vector(const Column& column, Device device) {
  return Tensor::of({std::int64_t(column.size())}, std::vector<double>(column.begin(), column.end()), device);
}

// What is infinite or NaN in the model may be either in the operation.
void compare(const std::string& what, const Tensor& got, const std::vector<Real>& want) {
  const std::vector<double> values = got.values<double>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    const bool same = std::isfinite(want[i]) ? std::fabs(values[i] - want[i]) <= kTolerance * (1 + std::fabs(want[i]))
                                             : !std::isfinite(values[i]);
    if (!same)
      throw std::runtime_error(fmt::format("{} {}: got {:.17g}, want {:.17g}", what, i, values[i], double(want[i])));
  }
}
std::vector<Real> rows_of(const Matrix& columns) {
  std::vector<Real> all;
  for (std::size_t p = 0; p < columns[0].size(); ++p)
    for (const Column& column : columns) all.push_back(column[p]);
  return all;
}
std::vector<Real> joined(const std::vector<Column>& ring) {
  std::vector<Real> all;
  for (const Column& row : ring) all.insert(all.end(), row.begin(), row.end());
  return all;
}

void compare_state(const std::string& at, const ChannelNormState& state, const ChannelNormModel& model) {
  const std::map<std::string, std::vector<Real>> want{{"run_mean", model.run_mean},     {"run_var", model.run_var},
                                                      {"psi_ema", model.psi_ema},       {"phi", model.run_var},
                                                      {"win_sq", joined(model.win_sq)}, {"nu_ema", model.psi_ema},
                                                      {"win_g", joined(model.win_g)}};
  for (const auto& [name, buffer] : state.named())
    if (want.count(name)) compare(at + name, buffer, want.at(name));
  if (state.skips.item() != model.skips) throw std::runtime_error(at + "skips");
}

// Returns how many steps could be compared: those before the first close call.
int follow(unsigned seed, Device device) {
  Generator random(seed);
  const ChannelNormOptions options = random.options();
  const int P = random.below(20) ? 1 + random.below(6) : 60 + random.below(90), C = 1 + random.below(4),
            steps = 4 + random.below(24);
  // Windows with NaN decide about outliers by chance; they are kept free of it, or the filter is off.
  const bool defined = options.form == ChannelForm::paper && (options.hold_non_finite || !options.filtration);
  const bool masked = random.coin(), non_finite = defined && random.below(3) == 0;
  const long start = random.coin() ? 0 : 990 + random.below(20);
  ChannelNormModel model(options, C, 1e-9L, start);
  const ChannelNormState state = ChannelNormState::create(options, C, DType::f64, device);
  state.iters.copy_from(Tensor::of<std::int64_t>({}, {start}));
  Column levels(C);
  for (Real& level : levels) level = std::exp(random.normal());
  const Column gamma = random.gradients(C, 1)[0], beta = random.gradients(C, 1)[0];
  for (int s = 0; s < steps; ++s) {
    const Matrix x = random.activations(P, levels, non_finite), dy = random.gradients(P, C);
    const std::vector<int> real = random.mask(P, masked);
    const ModelStep want = model.step(x, dy, real, gamma, beta);
    if (want.close_call) return s;
    const Tensor mask = Tensor::of({P}, std::vector<std::uint8_t>(real.begin(), real.end()), device);
    Tape tape;
    const Var xv = tape.variable(matrix(x, device)), g = tape.variable(vector(gamma, device)),
              b = tape.variable(vector(beta, device));
    const Var y = channel_norm(xv, g, b, masked ? &mask : nullptr, state, options, /*training=*/true);
    tape.backward(y, matrix(dy, device));
    const std::string at = fmt::format("history {}, step {}: ", seed, s + 1);
    compare(at + "y", y.value(), rows_of(want.y));
    compare(at + "dx", tape.grad(xv), rows_of(want.dx));
    compare(at + "dgamma", tape.grad(g), want.dgamma);
    compare(at + "dbeta", tape.grad(b), want.dbeta);
    compare_state(at, state, model);
  }
  return steps;
}

// 100 runs of RapidCheck make 10,000 histories.
RC_GTEST_PROP(ChannelNormModel, TenThousandHistories, (unsigned seed)) {
  int compared = 0;
  for (unsigned i = 0; i < 100; ++i) compared += follow(seed + i * 7919, Device::cpu);
  RC_ASSERT(compared > 1000);  // of about 1500
}
TEST(ChannelNormModel, HistoriesOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "no CUDA: " << cuda_description();
  for (unsigned seed = 1; seed <= 60; ++seed) EXPECT_NO_THROW(follow(seed, Device::cuda));
}

}  // namespace
}  // namespace foldgrad::testing
