// channel_norm against the model of channel_norm_model.h, on random histories of all methods and options. Neither can
// share a misreading of the papers with the other: `verify-traces` compares the operation with what another program
// wrote (tests/golden).
#include "tests/ops/channel_norm_model.h"

#include "ops/channel_norm/channel_norm.h"
#include "tests/harness/op_spec.h"
#include "tests/harness/properties.h"
#include "tests/ops/channel_norm_histories.h"

namespace foldgrad::testing {
namespace {

bool has_window(const ChannelNormOptions& o) {
  return o.forward == ForwardAverage::geometric || o.forward == ForwardAverage::arithmetic;
}

class Generator : public Histories {
 public:
  using Histories::Histories;

  ChannelNormOptions options() {
    using O = ChannelNormOptions;
    const O methods[] = {O::un(),          O::un(),          O::un(),   O::un(),
                         O::un_released(), O::un_released(), O::mabn(), O::mabn_released(),
                         O::bn(),          O::rbn(),         O::qmbn(), O::pn_star()};
    O o = methods[below(12)];
    const double alphas[] = {0, 0.5, 0.9, 1}, epss[] = {1e-5, 1e-3, 1};
    o.window_forward = below(5) ? 1 + below(10) : 1;
    o.window_backward = coin() ? o.window_forward : 1 + below(10);
    if (o.forward == ForwardAverage::arithmetic && o.window_forward == 1) o.window_backward = 1;
    o.warmup = below(8) ? below(12) : 995 + below(20);  // r begins after both of 1000 and this
    o.alpha_forward = alphas[below(4)];
    o.alpha_backward = coin() ? o.alpha_forward : 0.7;
    o.eps = epss[below(3)];
    // With one entry AM = GM; UN alone knows, for others rounding would decide.
    o.filtration = coin() && has_window(o) && (o.window_forward > 1 || o.forward == ForwardAverage::geometric);
    o.granularity = Granularity(below(4));
    o.ddof = below(2);
    o.flag_low = below(4) != 0;
    o.hold_on_skip = coin();
    o.psi_after_skip = PsiAfterSkip(below(3));
    if (o.form != ChannelForm::paper) return o;
    o.hold_non_finite = coin();
    if (o.statistic == ChannelStatistic::mean_square && below(4) == 0)
      o.rescale = coin() ? Rescale::backward : Rescale::both;
    if (o.forward == ForwardAverage::geometric && below(3) == 0) {  // the family, of which the methods are members
      o.forward = ForwardAverage(o.window_forward == 1 ? 2 * below(2) : below(4));
      o.backward = BackwardAverage(below(4));
      o.filtration = o.filtration && has_window(o);
    }
    return o;
  }
};

std::vector<Real> joined(const std::vector<Column>& ring) {
  std::vector<Real> all;
  for (const Column& row : ring) all.insert(all.end(), row.begin(), row.end());
  return all;
}

void compare_state(const std::string& at, const ChannelNormState& state, const ChannelNormModel& model) {
  const std::map<std::string, std::vector<Real>> want{{"run_mean", model.run_mean},
                                                      {"run_var", model.run_var},
                                                      {"psi_ema", model.psi_ema},
                                                      {"win_sq", joined(model.win_sq)},
                                                      {"win_g", joined(model.win_g)}};
  for (const auto& [name, buffer] : state.named())
    if (want.count(name)) compare(at + name, buffer, want.at(name));
  if (state.skips.item() != model.skips) throw std::runtime_error(at + "skips");
}

// The number of times that histories came to each thing that they promise.
using Reached = std::map<std::string, int>;

void count(Reached& reached, const ChannelNormOptions& o, const ModelStep& step, bool padded) {
  const bool released = o.rescale != Rescale::none,
             mabn = released && o.forward == ForwardAverage::arithmetic && o.backward == BackwardAverage::arithmetic;
  const std::string name = mabn ? "released mabn" : o.form == ChannelForm::released ? "released un" : "paper";
  const bool single = o.window_forward == 1 && o.window_backward == 1;
  const auto when = [&](const std::string& what, bool is) {
    if (is) reached[name + ", " + what] += 1;
  };
  const std::string with = std::string(single ? ", M = 1" : "") + (padded ? ", padded" : "");
  when("step" + with, true);
  for (std::size_t c = 0; c < step.r.size(); ++c) {
    when("outlier", step.outlier[c]);
    when("r != 1" + with, step.r[c] != 1);
    when("r = 1/5", step.r[c] == 0.2L);
    when("r = 5", step.r[c] == 5);
  }
}

// Compares steps up to the first close call.
Reached follow(unsigned seed, Device device) {
  Generator random(seed);
  const ChannelNormOptions options = random.options();
  const int P = random.below(20) ? 1 + random.below(6) : 60 + random.below(90), C = 1 + random.below(4),
            steps = 4 + random.below(24);
  // Windows with NaN decide about outliers by chance; they are kept free of it, or the filter is off.
  const bool defined = options.form == ChannelForm::paper && (options.hold_non_finite || !options.filtration);
  const bool padded = random.coin(), non_finite = defined && random.below(3) == 0;
  const long start = random.coin() ? 0 : 990 + random.below(20);
  ChannelNormModel model(options, C, kTolerance, start);
  ChannelNormState state = ChannelNormState::create(options, C, DType::f64, device);
  state.iters.copy_from(Tensor::of<std::int64_t>({}, {start}));
  Column levels(C);
  for (Real& level : levels) level = std::exp(random.normal());
  const Column gamma = random.gradients(C, 1)[0], beta = random.gradients(C, 1)[0];
  Reached reached;
  for (int s = 0; s < steps; ++s) {
    const Columns x = random.activations(P, levels, non_finite), dy = random.gradients(P, C);
    const std::vector<int> real = random.counted(P, padded);
    const ModelStep want = model.step(x, dy, real, gamma, beta);
    if (want.close_call) break;
    const std::int64_t counted = std::count(real.begin(), real.end(), 1);
    const OpResult got =
        results_of([&](auto& v) { return channel_norm(v[0], v[1], v[2], state, options, /*training=*/true, counted); },
                   {matrix(x), vector(gamma), vector(beta)}, matrix(dy), DType::f64, device);
    const std::string at = fmt::format("history {}, step {}: ", seed, s + 1);
    compare(at + "y", got.y, rows_of(want.y));
    compare(at + "dx", got.grads[0], rows_of(want.dx));
    compare(at + "dgamma", got.grads[1], want.dgamma);
    compare(at + "dbeta", got.grads[2], want.dbeta);
    compare_state(at, state, model);
    count(reached, options, want, padded);
  }
  return reached;
}

// 100 runs of RapidCheck make 10,000 histories.
RC_GTEST_PROP(ChannelNormModel, TenThousandHistories, (unsigned seed)) {
  int compared = 0;
  for (unsigned i = 0; i < 100; ++i)
    for (const auto& [what, times] : follow(seed + i * 7919, Device::cpu))
      if (what.find("step") != std::string::npos) compared += times;
  RC_ASSERT(compared > 1000);  // of about 1500
}
TEST(ChannelNormModel, HistoriesReachWhatTheyPromise) {
  Reached all;
  for (unsigned seed = 1; seed <= 1000; ++seed)
    for (const auto& [what, times] : follow(seed, Device::cpu)) all[what] += times;
  for (const std::string name : {"paper", "released un", "released mabn"})
    for (const char* what : {"step", "step, padded", "step, M = 1", "step, M = 1, padded"})
      EXPECT_GE(all[name + ", " + what], 20) << name << ", " << what;
  for (const std::string name : {"paper", "released un", "released mabn"})
    for (const char* what : {"outlier", "r != 1", "r != 1, padded", "r = 1/5", "r = 5"})
      EXPECT_GE(all[name + ", " + what], 20) << name << ", " << what;
  for (const char* what : {"r != 1, M = 1", "r != 1, M = 1, padded"})
    EXPECT_GE(all[std::string("released mabn, ") + what], 20) << what;
}
TEST(ChannelNormModel, HistoriesOnCuda) {
  if (!cuda_available()) GTEST_SKIP() << "CUDA: " << cuda_description();
  for (unsigned seed = 1; seed <= 60; ++seed) EXPECT_NO_THROW(follow(seed, Device::cuda));
}

}  // namespace
}  // namespace foldgrad::testing
