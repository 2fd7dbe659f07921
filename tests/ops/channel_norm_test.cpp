#include "tests/ops/channel_norm_fixture.h"

namespace foldgrad::testing {
namespace {

using Options = ChannelNormOptions;

ChannelNormState state_for(const Var& x, const Options& o) {
  return ChannelNormState::create(o, x.shape()[-1], x.dtype() == DType::f64 ? DType::f64 : DType::f32, x.device());
}

struct Setting {
  Options options;
  std::int64_t iterations = 0;  // before the case
  double window = 0;            // value of all buffers but counters, 0: fresh
  bool padded = false, training = true;
};

// Every evaluation begins with a state of its own. Without it, differences would see the state move.
OpCase channel_case(const std::string& label, const Setting& s, std::int64_t rows, std::int64_t columns,
                    bool large = false) {
  return {.label = label,
          .operands = {randn({rows, columns}, 1, 1, 0.3), randn({columns}, 2), randn({columns}, 3)},
          .f =
              [s, rows](const std::vector<Var>& v) {
                const ChannelNormState state = state_for(v[0], s.options);
                set_iterations(state, s.iterations);
                for (const auto& [name, buffer] : state.named())
                  if (s.window > 0 && name != "iters" && name != "skips") set(buffer, s.window);
                const std::int64_t counted = s.padded ? rows - rows / 3 : rows;
                return channel_norm(v[0], v[1], v[2], state, s.options, s.training, counted);
              },
          .large = large};
}

// The exact cases of the specification's gradient-check matrix, and with `large`, which differences leave out, those
// whose backward is an estimate, for the parity of devices and precisions. Rows around one block of 64, columns around
// a warp.
std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (bool padded : {false, true}) {
    const std::string with = padded ? ", padded" : "";
    all.push_back(channel_case("bn" + with, {Options::bn(), 0, 0, padded}, 7, 3));
    all.push_back(channel_case("rbn" + with, {Options::rbn(), 0, 0, padded}, 6, 3));
    all.push_back(channel_case("qmbn" + with, {Options::qmbn(), 0, 0, padded}, 7, 3));
    all.push_back(channel_case("un in warm-up" + with, {Options::un(), 3, 0.5, padded}, 5, 4));
    all.push_back(
        channel_case("un before its window is full" + with, {with_warmup(Options::un(), 0), 3, 0.5, padded}, 5, 3));
    all.push_back(channel_case("un with M = 1" + with, {single_window(Options::un()), 9, 0.5, padded}, 5, 3));
    all.push_back(channel_case("mabn in warm-up" + with, {Options::mabn(), 3, 0.5, padded}, 5, 3));
    all.push_back(channel_case("pn_star in warm-up" + with, {Options::pn_star(), 3, 0.5, padded}, 5, 3));
    all.push_back(channel_case("mabn_released in warm-up" + with, {Options::mabn_released(), 3, 0.5, padded}, 5, 3));
    all.push_back(channel_case("mabn_released with M = 1" + with,
                               {single_window(Options::mabn_released()), 9, 0.5, padded}, 5, 3));
    // A constant window has the threshold 0: every change is an outlier.
    for (Granularity g : {Granularity::channel, Granularity::layer_any, Granularity::layer_sum, Granularity::pooled})
      all.push_back(channel_case("un at an outlier" + with, {filtered(g), 9, 1e-4, padded}, 5, 3));
    all.push_back(channel_case("un, 130 rows" + with, {with_warmup(Options::un(), 0), 9, 0.5, padded}, 130, 33, true));
    all.push_back(channel_case("bn, 129 rows" + with, {Options::bn(), 0, 0, padded}, 129, 31, true));
  }
  all.push_back(channel_case("bn evaluated", {Options::bn(), 5, 0.7, true, false}, 4, 3));
  all.push_back(channel_case("un evaluated", {Options::un(), 5, 0.7, true, false}, 4, 3));
  all.push_back(channel_case("un_released with M = 1", {single_window(Options::un_released()), 9, 0.5}, 5, 3));
  all.push_back(channel_case("bn, more rows than the blocks of a grid take at once", {Options::bn()}, 65700, 2, true));
  all.push_back(channel_case("one column", {Options::bn()}, 65, 1, true));
  all.push_back(channel_case("un_released", {with_warmup(Options::un_released(), 0), 2000, 0.5}, 70, 40, true));
  all.push_back(channel_case("mabn_released", {Options::mabn_released(), 2000, 0.5, true}, 9, 3, true));
  all.push_back(channel_case("un, 300 columns", {filtered(Granularity::layer_sum), 9, 0.5}, 9, 300, true));
  return all;
}

Var run(Tape& t, const Options& options, const Options& made_for) {
  const Var x = t.constant(Tensor::zeros({2, 3}, DType::f32)), g = t.constant(Tensor::zeros({3}, DType::f32));
  return channel_norm(x, g, g, ChannelNormState::create(made_for, 3, DType::f32), options, true);
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
    .errors =
        {{"channel_norm: gamma must be f32 [3] on cpu, to go with x, which is f32 [2, 3] on cpu, got f32 [2] on cpu",
          [](Tape& t) {
            const Var x = t.constant(Tensor::zeros({2, 3}, DType::f32)), g = t.constant(Tensor::zeros({2}, DType::f32));
            channel_norm(x, g, g, ChannelNormState::create(Options::un(), 3, DType::f32), Options::un(), true);
          }},
         {"channel_norm: counted must be in [0, 2], the rows of x, got 3",
          [](Tape& t) {
            const Var x = t.constant(Tensor::zeros({2, 3}, DType::f32)), g = t.constant(Tensor::zeros({3}, DType::f32));
            channel_norm(x, g, g, ChannelNormState::create(Options::un(), 3, DType::f32), Options::un(), true, 3);
          }},
         {"channel_norm: state.psi_ema must be f32 [3] on cpu, to go with x, which is f32 [2, 3] on cpu, got nothing",
          [](Tape& t) { run(t, Options::un(), Options::qmbn()); }},
         option_error("channel_norm: windows must be at least 1, got 4 forward and 0 backward",
                      [](Options& o) { o.window_backward = 0; }),
         option_error("channel_norm: eps must not be negative, got -1", [](Options& o) { o.eps = -1; }),
         option_error("channel_norm: alpha must be in [0, 1], got 1.5", [](Options& o) { o.alpha_backward = 1.5; }),
         option_error("channel_norm: ddof must be 0 or 1, got 2", [](Options& o) { o.ddof = 2; }),
         option_error("channel_norm: averages need the statistic mean_square, got variance",
                      [](Options& o) { o.statistic = ChannelStatistic::variance; }),
         option_error("channel_norm: filtration needs a forward average over a window",
                      [](Options& o) {
                        o.filtration = true;
                        o.forward = ForwardAverage::exponential;
                      })},
    .f32_roundoffs = 2000,  // sums of up to 130 rows, differences of similar terms in dx
    .bf16_roundoffs = 32,
});

}  // namespace
}  // namespace foldgrad::testing
