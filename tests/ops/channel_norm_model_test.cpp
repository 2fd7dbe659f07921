// Compares channel_norm with the model of channel_norm_model.h on random histories of all methods and options. Both
// could misread the papers in the same way, so `verify-traces` compares the operation with another program's results
// (tests/golden).
#include "tests/ops/channel_norm_model.h"

#include "tests/ops/channel_norm_fixture.h"
#include "tests/ops/channel_norm_histories.h"

namespace foldgrad::testing {
namespace {

bool has_window(const ChannelNormOptions& o) {
  return o.forward == ForwardAverage::geometric || o.forward == ForwardAverage::arithmetic;
}

struct ChannelNormKind {
  using Options = ChannelNormOptions;

  static Options draw(Draws& random) {
    using O = Options;
    Options o = random.one_of({O::un(), O::un(), O::un(), O::un(), O::un_released(), O::un_released(), O::mabn(),
                               O::mabn_released(), O::bn(), O::rbn(), O::qmbn(), O::pn_star()});
    o.window_forward = random.below(5) ? 1 + random.below(10) : 1;
    o.window_backward = random.coin() ? o.window_forward : 1 + random.below(10);
    if (o.forward == ForwardAverage::arithmetic && o.window_forward == 1) o.window_backward = 1;
    // r may differ from 1 after iteration max(1000, warmup), so some warm-ups end just before or after iteration 1000.
    o.warmup = random.below(8) ? random.below(12) : 995 + random.below(20);
    o.alpha_forward = random.one_of({0., 0.5, 0.9, 1.});
    o.alpha_backward = random.coin() ? o.alpha_forward : 0.7;
    o.eps = random.one_of({1e-5, 1e-3, 1.});
    // With a window of one entry, AM = GM, so rounding would decide the outlier test. Filtration is then off, unless
    // the forward average is geometric, as in UN.
    o.filtration = random.coin() && has_window(o) && (o.window_forward > 1 || o.forward == ForwardAverage::geometric);
    o.granularity = Granularity(random.below(4));
    o.ddof = random.below(2);
    o.flag_low = random.below(4) != 0;
    o.hold_on_skip = random.coin();
    o.psi_after_skip = PsiAfterSkip(random.below(3));
    if (o.form != ChannelForm::paper) return o;
    o.hold_non_finite = random.coin();
    o.finite_state = random.coin();
    if (o.statistic == ChannelStatistic::mean_square && random.below(4) == 0)
      o.rescale = random.coin() ? Rescale::backward : Rescale::both;
    if (o.forward == ForwardAverage::geometric && random.below(3) == 0) {  // use the averages of UN's relatives
      o.forward = ForwardAverage(o.window_forward == 1 ? 2 * random.below(2) : random.below(4));
      o.backward = BackwardAverage(random.below(4));
      o.filtration = o.filtration && has_window(o);
    }
    return o;
  }
  static long late_start(Draws& random) { return 990 + random.below(20); }
  // If a window contains NaN, the result of the outlier test is arbitrary. So x may contain NaN only if hold_non_finite
  // keeps NaN out of the windows, or if filtration is off.
  static bool allows_non_finite(const Options& o) {
    return o.form == ChannelForm::paper && (o.hold_non_finite || !o.filtration);
  }

  // Returns edits that simplify a failing case. The first edit switches to UN, but keeps the numeric options and the
  // skip rules. Each of the next edits sets one option to UN's default. The last edits shorten the warm-up or a window.
  static std::vector<Edit<Options>> edits(const Options& options) {
    std::vector<Edit<Options>> all{[](Options& o) {
      const Options before = std::exchange(o, Options::un());
      for (auto member : {&Options::window_forward, &Options::window_backward, &Options::warmup})
        o.*member = before.*member;
      for (auto member : {&Options::filtration, &Options::flag_low, &Options::hold_on_skip}) o.*member = before.*member;
      for (auto member : {&Options::alpha_forward, &Options::alpha_backward, &Options::eps}) o.*member = before.*member;
      o.granularity = before.granularity;
      o.ddof = before.ddof;
      o.psi_after_skip = before.psi_after_skip;
      return text(o) != text(before);
    }};
    const auto to_default = [&](auto member) {
      all.push_back([=](Options& o) {
        const auto usual = Options::un().*member;
        return std::exchange(o.*member, usual) != usual;
      });
    };
    if (options.form == ChannelForm::paper) {
      if (options.statistic == ChannelStatistic::mean_square) to_default(&Options::forward);
      to_default(&Options::backward);
      to_default(&Options::rescale);
      to_default(&Options::hold_non_finite);
      to_default(&Options::finite_state);
    }
    to_default(&Options::filtration);
    to_default(&Options::granularity);
    to_default(&Options::ddof);
    to_default(&Options::flag_low);
    to_default(&Options::hold_on_skip);
    to_default(&Options::psi_after_skip);
    for (auto member : {&Options::alpha_forward, &Options::alpha_backward, &Options::eps}) to_default(member);
    for (auto member : {&Options::warmup, &Options::window_forward, &Options::window_backward})
      for (std::int64_t less : {std::int64_t(0), std::int64_t(1), options.*member / 2, options.*member - 1})
        all.push_back([=](Options& o) { return std::exchange(o.*member, less) > less; });
    return all;
  }
  static bool allows(const Options& o) {
    const bool geometric = o.forward == ForwardAverage::geometric;
    return o.warmup >= 0 && o.window_backward > 0 && o.window_forward > (geometric ? 0 : 1);
  }

  // Describes the options that differ from UN's.
  static std::string text(const Options& o) {
    const Options un;
    std::string all = "UN";
    const auto add = [&](const char* name, auto member, std::vector<const char*> names = {}) {
      if (o.*member == un.*member) return;
      const auto index = std::size_t(o.*member);
      all +=
          names.empty() ? fmt::format(", {} {}", name, double(o.*member)) : fmt::format(", {} {}", name, names[index]);
    };
    add("statistic", &Options::statistic, {"variance", "mean_square"});
    add("forward", &Options::forward, {"none", "arithmetic", "geometric", "exponential"});
    add("backward", &Options::backward, {"none", "arithmetic", "exponential", "arithmetic_exponential"});
    add("form", &Options::form, {"paper", "released"});
    add("window_forward", &Options::window_forward);
    add("window_backward", &Options::window_backward);
    add("warmup", &Options::warmup);
    add("alpha_forward", &Options::alpha_forward);
    add("alpha_backward", &Options::alpha_backward);
    add("eps", &Options::eps);
    add("filtration", &Options::filtration, {"false", "true"});
    add("granularity", &Options::granularity, {"channel", "layer_any", "layer_sum", "pooled"});
    add("ddof", &Options::ddof);
    add("flag_low", &Options::flag_low, {"false", "true"});
    add("hold_on_skip", &Options::hold_on_skip, {"false", "true"});
    add("hold_non_finite", &Options::hold_non_finite, {"false", "true"});
    add("finite_state", &Options::finite_state, {"false", "true"});
    add("psi_after_skip", &Options::psi_after_skip, {"ema", "literal", "freeze"});
    add("rescale", &Options::rescale, {"none", "backward", "both"});
    add("clamped_variance", &Options::clamped_variance, {"false", "true"});
    return all;
  }
};
using ChannelNormHistory = History<ChannelNormKind>;

Column joined(const Columns& ring) {
  Column all;
  for (const Column& row : ring) all.insert(all.end(), row.begin(), row.end());
  return all;
}

std::vector<double> doubles(const Column& a) { return {a.begin(), a.end()}; }

void compare_state(const ChannelNormState& state, const ChannelNormModel& model) {
  const std::map<std::string, std::vector<Real>> want{{"run_mean", model.run_mean},
                                                      {"run_var", model.run_var},
                                                      {"psi_ema", model.psi_ema},
                                                      {"win_sq", joined(model.win_sq)},
                                                      {"win_g", joined(model.win_g)}};
  for (const auto& [name, buffer] : state.named())
    if (want.count(name)) compare(name, buffer, want.at(name));
  if (state.skips.item() != model.skips) throw std::runtime_error("skips");
}

// For each kind of step, how often histories reached it.
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

// Runs history `h` on the model and on channel_norm, and throws if any results differ. Stops at a step in which
// rounding could decide an outlier test. Returns how often it reached each kind of step.
Reached follow(const ChannelNormHistory& h, Device device) {
  const int C = int(h.channels());
  ChannelNormModel model(h.options, C, kTolerance, h.start);
  ChannelNormState state = ChannelNormState::create(h.options, C, DType::f64, device);
  set_iterations(state, h.start);
  Reached reached;
  for (std::size_t s = 0; s < h.steps.size(); ++s) {
    const HistoryStep& step = h.steps[s];
    const Columns window = model.win_sq;
    const ModelStep want = model.step(columns(step.x), columns(step.dy), real_rows(h.rows(), step.counted),
                                      column(h.gamma), column(h.beta));
    if (want.close_call) break;
    const auto op = [&](auto& v) {
      return channel_norm(v[0], v[1], v[2], state, h.options,
                          {.training = true, .counted = std::int64_t(step.counted)});
    };
    const OpResult got =
        results_of(op, {matrix(step.x), vector(h.gamma), vector(h.beta)}, matrix(step.dy), DType::f64, device);
    try {
      compare("y", got.y, rows_of(want.y));
      compare("dx", got.grads[0], rows_of(want.dx));
      compare("dgamma", got.grads[1], want.dgamma);
      compare("dbeta", got.grads[2], want.dbeta);
      compare_state(state, model);
    } catch (const std::runtime_error& difference) {
      throw std::runtime_error(fmt::format("step {}, {}; window before it {}, outlier {}", s + 1, difference.what(),
                                           doubles(joined(window)), want.outlier));
    }
    count(reached, h.options, want, step.counted < h.rows());
  }
  return reached;
}

TEST(ChannelNormModel, UN_14_MABN_1_TenThousandHistories) {
  check_property(10000, [] { follow(*any_history<ChannelNormKind>(), Device::cpu); });
}
TEST(ChannelNormModel, HistoriesReachWhatTheyPromise) {
  Reached all;
  for (std::uint64_t seed = 1; seed <= 1200; ++seed)
    for (const auto& [what, times] : follow(any_history<ChannelNormKind>()(rc::Random(seed)).value(), Device::cpu))
      all[what] += times;
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
  check_property(60, [] { follow(*any_history<ChannelNormKind>(), Device::cuda); });
}

}  // namespace
}  // namespace foldgrad::testing
