// Tests the specification of channel_norm, and its behaviour over several calls, on outliers and on unusual data.
#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

ChannelNormState state_for(const Var& x, const Options& o) {
  return ChannelNormState::create(o, x.shape()[-1], x.dtype() == DType::f64 ? DType::f64 : DType::f32, x.device());
}

struct Setting {
  Options options;
  std::int64_t iterations = 0;  // number of iterations before the case
  double window = 0;            // value of all buffers except counters; 0 means the initial state
  bool padded = false, training = true;
};

// Returns a function that creates a new state for every evaluation. Otherwise, the evaluations for central differences
// would start from different states.
OpFunction from_state(const Setting& s, std::int64_t rows) {
  return [s, rows](const std::vector<Var>& v) {
    const ChannelNormState state = state_for(v[0], s.options);
    set_iterations(state, s.iterations);
    for (const auto& [name, buffer] : state.named())
      if (s.window > 0 && name != "iters" && name != "skips") set(buffer, s.window);
    const std::int64_t counted = s.padded ? rows - rows / 3 : rows;
    return channel_norm(v[0], v[1], v[2], state, s.options, {.training = s.training, .counted = counted});
  };
}

// Cases with an exact dx are compared with central differences. Cases whose dx is an estimate, or whose central
// differences would take too long, are `large`: only devices and precisions are compared. Some cases have slightly more
// rows than one or two blocks of 64, or 31 or 33 columns, because a warp has 32 lanes.
std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& label, const Setting& s, std::int64_t rows, std::int64_t columns,
                       bool large = false) {
    all.push_back({.label = label,
                   .operands = {randn({rows, columns}, 1, 1, 0.3), randn({columns}, 2), randn({columns}, 3)},
                   .f = from_state(s, rows),
                   .large = large});
  };
  for (bool padded : {false, true}) {
    const std::string with = padded ? ", padded" : "";
    add("bn" + with, {Options::bn(), 0, 0, padded}, 7, 3);
    add("rbn" + with, {Options::rbn(), 0, 0, padded}, 6, 3);
    add("qmbn" + with, {Options::qmbn(), 0, 0, padded}, 7, 3);
    add("un in warm-up" + with, {Options::un(), 3, 0.5, padded}, 5, 4);
    add("un before its window is full" + with, {with_warmup(Options::un(), 0), 3, 0.5, padded}, 5, 3);
    add("un with M = 1" + with, {single_window(Options::un()), 9, 0.5, padded}, 5, 3);
    add("mabn in warm-up" + with, {Options::mabn(), 3, 0.5, padded}, 5, 3);
    add("pn_star in warm-up" + with, {Options::pn_star(), 3, 0.5, padded}, 5, 3);
    add("mabn_released in warm-up" + with, {Options::mabn_released(), 3, 0.5, padded}, 5, 3);
    add("mabn_released with M = 1" + with, {single_window(Options::mabn_released()), 9, 0.5, padded}, 5, 3);
    // A constant window has the threshold 0, so every change is an outlier.
    for (Granularity g : {Granularity::channel, Granularity::layer_any, Granularity::layer_sum, Granularity::pooled})
      add("un at an outlier" + with, {filtered(g), 9, 1e-4, padded}, 5, 3);
    add("un, 130 rows" + with, {with_warmup(Options::un(), 0), 9, 0.5, padded}, 130, 33, true);
    add("bn, 129 rows" + with, {Options::bn(), 0, 0, padded}, 129, 31, true);
  }
  add("bn evaluated", {Options::bn(), 5, 0.7, true, false}, 4, 3);
  add("un evaluated", {Options::un(), 5, 0.7, true, false}, 4, 3);
  add("un_released with M = 1", {single_window(Options::un_released()), 9, 0.5}, 5, 3);
  all.push_back({.label = "bn of sequences",
                 .operands = {randn({4, 2, 3}, 1, 1, 0.3), randn({3}, 2), randn({3}, 3)},
                 .f = from_state({Options::bn()}, 8)});
  add("bn, more rows than the blocks of a grid take at once", {Options::bn()}, 65700, 2, true);
  add("one column", {Options::bn()}, 65, 1, true);
  add("un_released", {with_warmup(Options::un_released(), 0), 2000, 0.5}, 70, 40, true);
  add("mabn_released", {Options::mabn_released(), 2000, 0.5, true}, 9, 3, true);
  add("un, 600 columns", {filtered(Granularity::layer_sum), 9, 0.5}, 9, 600, true);
  return all;
}

void run(Tape& t, const Options& options, const Options& made_for, std::int64_t C = 3,
         std::optional<std::int64_t> counted = {}) {
  channel_norm(zeros(t, 2, 3), zeros(t, C), zeros(t, C), ChannelNormState::create(made_for, 3, DType::f32), options,
               {.training = true, .counted = counted});
}
OpError option_error(const std::string& message, const std::function<void(Options&)>& change) {
  return {message, [change](Tape& t) {
            Options o = Options::un();
            change(o);
            run(t, o, Options::un());
          }};
}

const RegisterOp kChannelNorm({
    .name = "channel_norm",
    .cases = cases(),
    .errors = {{"channel_norm: gamma must be f32 [3] on cpu (x is f32 [2, 3] on cpu), got f32 [2] on cpu",
                [](Tape& t) { run(t, Options::un(), Options::un(), 2); }},
               {"channel_norm: counted must be in [0, 2], since x has 2 rows, got 3",
                [](Tape& t) { run(t, Options::un(), Options::un(), 3, 3); }},
               {"channel_norm: state.psi_ema must be f32 [3] on cpu (x is f32 [2, 3] on cpu), got nothing",
                [](Tape& t) { run(t, Options::un(), Options::qmbn()); }},
               option_error("channel_norm: windows must be at least 1, got 4 forward and 0 backward",
                            [](Options& o) { o.window_backward = 0; }),
               option_error("channel_norm: eps must not be negative, got -1", [](Options& o) { o.eps = -1; }),
               option_error("channel_norm: alpha must be in [0, 1], got 1.5",
                            [](Options& o) { o.alpha_backward = 1.5; }),
               option_error("channel_norm: ddof must be 0 or 1, got 2", [](Options& o) { o.ddof = 2; }),
               option_error("channel_norm: averages need the statistic mean_square, got variance",
                            [](Options& o) { o.statistic = ChannelStatistic::variance; }),
               option_error("channel_norm: filtration needs a forward average over a window",
                            [](Options& o) {
                              o.filtration = true;
                              o.forward = ForwardAverage::exponential;
                            })},
    .f32_roundoffs = 2000,  // sums of up to 65,700 rows; dx is a difference of similar terms
    .bf16_roundoffs = 32,
});

// The last 80 of 140 rows are padding: x is random there, and dy is 0. Padding must not change any bit of the other
// rows' results, although it extends into two more blocks of 64 rows.
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

// Two forward passes run before their backward passes, which run in reverse order. Each backward pass writes the window
// slot of its own forward pass, and psi_ema advances in the order of the backward passes.
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
    const ChannelNormState before = copy_of(layer.state);
    layer.forward(randn({4, 2}, 20));
    EXPECT_EQ(layer.state.iters.item(), 7);
    EXPECT_TRUE(identical(layer.state.win_g, before.win_g));
    EXPECT_TRUE(identical(layer.state.psi_ema, before.psi_ema));
    EXPECT_FALSE(identical(layer.state.win_sq, before.win_sq));
  }
}

// In the released form, an infinite batch makes run_var infinite forever, and filtration does not skip the batch.
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

// NaN in padding must not reach the statistics, neither from the block that also has real rows nor from later blocks.
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

// If a channel is zero in one step, GM is almost 0 for M steps, so outputs grow by a factor of about 1 / sqrt(eps).
// With the filter, the step is a downward outlier, so the zero does not enter the window.
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

// With a mean of 1e4 and a variance of 1, rounding in f32 would make E[x^2] - E[x]^2 meaningless.
TEST(ChannelNormUnusualData, CN_1_ChannelsFarFromZeroKeepTheirVariance) {
  const Tensor x = randn({1000, 3}, 7, 1, 1e4).to(DType::f32);
  const Layer exact(Options::bn(), 3, Device::cpu);
  const Tensor want = exact.step(x.to(DType::f64), randn({1000, 3}, 8)).first;
  for (Device device : devices()) {
    const Layer layer(Options::bn(), 3, device, DType::f32);
    const Tensor y = layer.step(x, randn({1000, 3}, 8)).first;
    // In f32, the mean itself has an error of up to half a unit in the last place of 1e4, about 5e-4.
    EXPECT_TRUE(close(y.to(Device::cpu), want, 2e-3)) << name(device);
    EXPECT_TRUE(close(layer.state.run_var, exact.state.run_var, 1e-5)) << name(device);
  }
}

}  // namespace
}  // namespace foldgrad::testing
