#include "models/normalizers/normalizer.h"

#include <algorithm>
#include <set>

#include "models/normalizers/options.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/layer_norm/layer_norm.h"
#include "tests/models/any_model.h"
#include "tests/models/normalizers/quick_normalizer.h"

namespace foldgrad::testing {
namespace {

class EveryNormalizer : public ::testing::TestWithParam<std::string> {};

// Trains in f64, f32 and bf16 on every device, with f32 parameters for f32 and bf16. Results may differ from f64 on the
// CPU only by rounding.
TEST_P(EveryNormalizer, RunsOnEveryDeviceInEveryPrecision) {
  const auto exact = quick_normalizer(GetParam(), DType::f64, Device::cpu);
  randomize(*exact);
  std::vector<Step> want;
  for (unsigned t = 0; t < 5; ++t) want.push_back(train_step(*exact, t));
  for (Device device : devices())
    for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-11}, {DType::f32, 1e-4}, {DType::bf16, 0.3}}) {
      const auto norm = quick_normalizer(GetParam(), dtype == DType::f64 ? DType::f64 : DType::f32, device);
      randomize(*norm);
      for (unsigned t = 0; t < 5; ++t) {
        const Step got = train_step(*norm, t, dtype, device);
        EXPECT_EQ(got.y.dtype(), dtype);
        EXPECT_TRUE(close(got.y, want[t].y, tolerance)) << name(dtype) << " on " << name(device) << ", step " << t;
        EXPECT_TRUE(close(got.dx, want[t].dx, tolerance)) << name(dtype) << " on " << name(device) << ", step " << t;
      }
    }
}

// After a restore, the same inputs give the same bits in outputs, gradients and state. Inference and its backward pass
// do not change the state.
TEST_P(EveryNormalizer, SnapshotsBringBackTheState) {
  for (Device device : devices()) {
    SCOPED_TRACE(name(device));
    const auto norm = quick_normalizer(GetParam(), DType::f32, device);
    randomize(*norm);
    for (unsigned t = 0; t < 3; ++t) train_step(*norm, t, DType::f32, device);
    const NamedTensors before = norm->snapshot();
    const Step first = train_step(*norm, 9, DType::f32, device);
    const NamedTensors after = norm->snapshot();
    norm->restore(before);
    const Tensor x = randn({4, kChannels}, 1).to(DType::f32).to(device);
    Tape tape;
    tape.backward(norm->apply(tape.variable(x), {}), x);
    for (const auto& [name, tensor] : norm->state()) EXPECT_TRUE(identical(tensor, before.at(name))) << name;
    const Step again = train_step(*norm, 9, DType::f32, device);
    EXPECT_TRUE(identical(again.y, first.y));
    EXPECT_TRUE(identical(again.dx, first.dx));
    bool changed = false;
    for (const auto& [name, tensor] : norm->state()) {
      EXPECT_TRUE(identical(tensor, after.at(name))) << name;
      changed = changed || !identical(tensor, before.at(name));
    }
    EXPECT_EQ(changed, !before.empty());
  }
}

// Checks that padding rows, which come last and have dy = 0, change neither the state nor the results of real rows.
void expect_padding_left_out(const std::string& normalizer, const Options& options) {
  constexpr std::int64_t kReal = 4;
  const auto run = [&](std::int64_t tokens) {
    const auto norm = make_normalizer(normalizer, options, "norm", kChannels, DType::f64);
    if (norm->mixes_tokens()) tokens = kReal;  // no padding, since all rows of a sample count
    NamedTensors results;
    for (unsigned t = 0; t < 5; ++t) {
      Tape tape;
      const Tensor x = Tensor::full({tokens, kChannels}, 50, DType::f64), dy = Tensor::zeros(x.shape(), DType::f64);
      std::copy_n(randn({kReal, kChannels}, t).data<double>(), kReal * kChannels, x.data<double>());
      std::copy_n(randn({kReal, kChannels}, t + 50).data<double>(), kReal * kChannels, dy.data<double>());
      const Segments rows({tokens});
      const Var in = tape.variable(x);
      const Var out = norm->apply(in, {.training = true, .samples = &rows, .counted = kReal});
      tape.backward(out, dy);
      results[fmt::format("y of step {}", t)] = out.value().slice(0, kReal);
      results[fmt::format("dx of step {}", t)] = tape.grad(in).slice(0, kReal);
    }
    for (const auto& [name, tensor] : norm->snapshot()) results[name] = tensor;
    return results;
  };
  const auto without = run(kReal), with = run(6);
  for (const auto& [name, tensor] : without) EXPECT_TRUE(identical(with.at(name), tensor)) << name;
}
TEST_P(EveryNormalizer, PaddingIsLeftOut) { expect_padding_left_out(GetParam(), quick(GetParam())); }
// Among the released forms, only mabn leaves padding out; un and PowerNorm average gradients over it, too.
TEST(Normalizer, ReleasedMabnLeavesPaddingOut) {
  expect_padding_left_out("mabn", {{"mode", "reference"}, {"window", "2"}, {"warmup", "2"}});
}

TEST_P(EveryNormalizer, NamesItsParametersAfterTheSite) {
  const auto norm = quick_normalizer(GetParam(), DType::f32, Device::cpu);
  std::set<std::string> names;
  for (Parameter* p : norm->parameters()) {
    EXPECT_EQ(p->name.rfind("norm.", 0), 0u) << p->name;
    EXPECT_TRUE(names.insert(p->name).second) << p->name;
  }
  Tape tape;
  const Var y = norm->apply(tape.variable(randn({2, 5, kChannels}, 1).to(DType::f32)), {.training = true});
  for (const auto& node : tape.nodes()) EXPECT_EQ(node->scope(), "norm");
  tape.backward(y, randn({2, 5, kChannels}, 2).to(DType::f32));
  for (Parameter* p : norm->parameters()) EXPECT_TRUE(p->has_grad) << p->name;
}

TEST_P(EveryNormalizer, RefusesOtherChannels) {
  const auto norm = quick_normalizer(GetParam(), DType::f32, Device::cpu);
  Tape tape;
  EXPECT_EQ(message_of([&] {
              norm->apply(tape.constant(Tensor::zeros({2, 3}, DType::f32)), {});
            }),
            "norm (" + GetParam() + "): x must have 8 channels, got f32 [2, 3] on cpu");
}

INSTANTIATE_TEST_SUITE_P(All, EveryNormalizer, ::testing::ValuesIn(normalizer_names()),
                         [](const auto& i) { return i.param; });

TEST(Normalizer, AllAreThere) {
  EXPECT_EQ(normalizer_names(),
            (std::vector<std::string>{"affine",  "bn",        "centernorm",   "deepnorm", "derf", "dyt",
                                      "fixnorm", "groupnorm", "instancenorm", "ln",       "mabn", "none",
                                      "pn",      "pn_star",   "prepbn",       "qmbn",     "rbn",  "repbn",
                                      "rmsnorm", "scale",     "scalenorm",    "un"}));
  for (const char* name :
       {"un", "bn", "qmbn", "mabn", "pn_star", "rbn", "repbn", "prepbn", "centernorm", "affine", "scale", "none"})
    EXPECT_TRUE(make_normalizer(name, {}, "n", 4)->info().offline()) << name;
}

TEST(Normalizer, RestoreRefusesWhatDoesNotFit) {
  const auto norm = make_normalizer("bn", {}, "norm", 3);
  NamedTensors snapshot = norm->snapshot();
  snapshot["run_var"] = Tensor::zeros({4}, DType::f32);
  EXPECT_EQ(message_of([&] { norm->restore(snapshot); }),
            "norm (bn): run_var of the saved state must be f32 [3], got f32 [4] on cpu");
}

TEST(Normalizer, DiagnosticsCountStepsAndSkips) {
  const auto norm = make_normalizer("un", {{"window", "2"}, {"warmup", "0"}, {"filtration", "1"}}, "n", 1, DType::f64);
  for (double x : {1.0, 1.5, 1.2, 100.0}) {
    Tape tape;
    norm->apply(tape.constant(Tensor::full({2, 1}, x, DType::f64)), {.training = true});
  }
  const NormDiagnostics d = norm->diagnostics();
  EXPECT_EQ(d.iterations, 4);
  EXPECT_EQ(d.skips, 1);
  EXPECT_EQ(d.least_variance, d.greatest_variance);
  EXPECT_GT(*d.least_variance, 1000);  // a tenth of 100^2: the outlier enters the running variance
  norm->reset_iterations();
  EXPECT_EQ(norm->diagnostics().iterations, 0);
  EXPECT_EQ(norm->diagnostics().skips, 1);
  EXPECT_FALSE(make_normalizer("ln", {}, "n", 1)->diagnostics().least_variance);
}

// Step 0 uses only layer normalization. Then its share lam falls from 1 in step 1 to 0 in step 5.
TEST(Normalizer, PrepbnTurnsFromLayerNormIntoRepbn) {
  const auto norm = make_normalizer("prepbn", {{"warmup", "1"}, {"total", "4"}}, "n", kChannels, DType::f64);
  const auto repbn = make_normalizer("repbn", {}, "n", kChannels, DType::f64);
  for (unsigned t = 0; t < 7; ++t) {
    const double lam = t == 0 ? 1 : std::max(0.0, 1 - (t - 1) / 4.0);
    Tape tape;
    const Var x = tape.variable(randn({5, kChannels}, t)),
              one = tape.constant(Tensor::full({kChannels}, 1, DType::f64)),
              zero = tape.constant(Tensor::zeros({kChannels}, DType::f64));
    Var want = layer_norm(x, one, zero);
    if (t > 0) {
      const Var rep = scale(repbn->apply(x, {.training = true}), 1 - lam);
      want = add(scale(want, lam), rep);
    }
    for (Parameter* p : norm->parameters()) p->zero_grad();
    const Var y = norm->apply(x, {.training = true});
    EXPECT_TRUE(close(y.value(), want.value(), 1e-14)) << "step " << t;
    tape.backward(y, randn({5, kChannels}, t + 50));
    for (Parameter* p : norm->parameters()) {
      const bool rests = p->name.rfind("n.bn.", 0) == 0 ? t <= 1 : t >= 5;  // the share of its norm is 0
      ASSERT_TRUE(p->has_grad) << p->name << ", step " << t;
      EXPECT_EQ(close(p->grad, Tensor::zeros(p->value.shape(), DType::f64), 0), rests) << p->name << ", step " << t;
    }
  }
  const Tensor x = randn({5, kChannels}, 9);
  EXPECT_TRUE(close(infer(*norm, x), infer(*repbn, x), 1e-14));
}

TEST(Normalizer, PrepbnMayStayALayerNorm) {
  const auto norm =
      make_normalizer("prepbn", {{"warmup", "1"}, {"total", "9223372036854775807"}}, "n", kChannels, DType::f64);
  const auto ln = make_normalizer("ln", {}, "n", kChannels, DType::f64);
  const Tensor x = randn({5, kChannels}, 1);
  for (int t = 0; t < 3; ++t) {
    Tape tape(/*recording=*/false);
    const Var in = tape.constant(x), y = norm->apply(in, {.training = true});
    EXPECT_TRUE(close(y.value(), ln->apply(in, {}).value(), 1e-14)) << "step " << t;
  }
}

// Only rbn has a penalty, and only in training. For x = (1, 3), the mean is 2 and the variance is 1. The running
// estimates move by a twentieth, from 0 to 0.1 and from 1 to 1. So the penalty of each channel is 2 (2 - 0.1)^2.
TEST(Normalizer, RbnLeavesAPenalty) {
  for (const NormalizerInfo& info : normalizers()) {
    Options options = quick(info.name);
    if (info.name == "rbn") options = {{"mean_weight", "2"}, {"variance_weight", "100"}};
    const auto norm = make_normalizer(info.name, options, "n", kChannels, DType::f64);
    const Tensor x = Tensor::full({1, 2, kChannels}, 1, DType::f64);
    std::fill_n(x.data<double>() + kChannels, kChannels, 3.0);
    std::vector<Var> penalties;
    Tape tape;
    norm->apply(tape.variable(x), {.training = false, .penalties = &penalties});
    EXPECT_TRUE(penalties.empty()) << info.name;
    norm->apply(tape.variable(x), {.training = true, .penalties = &penalties});
    ASSERT_EQ(penalties.size(), info.name == "rbn") << info.name;
    for (const Var& penalty : penalties) EXPECT_NEAR(penalty.value().item(), kChannels * 2 * 1.9 * 1.9, 1e-12);
  }
}

TEST(Normalizer, DeepnormHasItsConstants) {
  const auto constants = [](const Options& options) {
    const auto norm = make_normalizer("deepnorm", options, "n", 4);
    return norm->info().residual(norm->options());
  };
  const auto expect = [](const ResidualConstants& got, double scale, double gain) {
    EXPECT_NEAR(got.scale, scale, 1e-12);
    EXPECT_NEAR(got.initial_gain, gain, 1e-12);
  };
  // With N = 16 encoder and M = 0 decoder layers, the constants are 32^(1/4) and 128^(-1/4). With N = M = 1, they are
  // the factors of the published formulas, such as 0.81 and 0.87.
  expect(constants({{"encoder_layers", "16"}, {"decoder_layers", "0"}}), 2.378414230005442, 0.2973017787506803);
  expect(constants({{"encoder_layers", "1"}, {"decoder_layers", "1"}}), 0.81, 0.87);
  expect(constants({{"encoder_layers", "1"}, {"decoder_layers", "1"}, {"stack", "decoder"}}), 1.3160740129524926,
         0.5372849659117709);
  // Only the residual is scaled: the sum is 0.81 (100, 0) + (0, 81) = (81, 81), which is normalized to (0, 0).
  Tape tape;
  const auto norm = make_normalizer("deepnorm", {{"encoder_layers", "1"}, {"decoder_layers", "1"}}, "n", 2, DType::f64);
  const Var residual = tape.constant(Tensor::of<double>({1, 2}, {100, 0})),
            branch = tape.constant(Tensor::of<double>({1, 2}, {0, 81}));
  const Var sum = add(scale(residual, norm->info().residual(norm->options()).scale), branch);
  EXPECT_TRUE(close(norm->apply(sum, {}).value(), Tensor::zeros({1, 2}, DType::f64), 1e-9));
}

// Passing every default as text gives the same options as passing none. Every choice is a valid value.
TEST(NormalizerOptions, DefaultsAndChoicesAreValidText) {
  for (const NormalizerInfo& info : normalizers()) {
    Options defaults = make_normalizer(info.name, {}, "norm", 32)->options().all();
    EXPECT_EQ(make_normalizer(info.name, defaults, "norm", 32)->options().all(), defaults);
    for (const NormalizerOption& option : info.options) {
      EXPECT_FALSE(option.help.empty());
      for (const std::string& choice : option.choices)
        EXPECT_EQ(make_normalizer(info.name, {{option.name, choice}}, "norm", 32)->options().text(option.name), choice);
    }
  }
}

std::string error_of(const std::string& name, const Options& options, std::int64_t channels = 8) {
  return message_of([&] { make_normalizer(name, options, "norm", channels); });
}

TEST(NormalizerOptions, ErrorsNameTheNearest) {
  EXPECT_EQ(error_of("lnn", {}).substr(0, 62), "there is no normalizer \"lnn\"; did you mean \"ln\"? There are: af");
  EXPECT_EQ(error_of("nothing", {}).substr(0, 50), "there is no normalizer \"nothing\". There are: affin");
  EXPECT_EQ(
      error_of("mabn", {{"windw", "4"}}),
      "mabn: there is no option \"windw\"; did you mean \"window\"? Its options are: mode, window, warmup, alpha, "
      "eps");
  EXPECT_EQ(error_of("none", {{"eps", "1"}}), "none: there is no option \"eps\"; this normalizer has no options");
}

TEST(NormalizerOptions, ErrorsNameTheRange) {
  EXPECT_EQ(error_of("bn", {{"alpha", "1.5"}}), "bn: alpha must be a number in [0, 1], got \"1.5\"");
  EXPECT_EQ(error_of("bn", {{"alpha", "nan"}}), "bn: alpha must be a number in [0, 1], got \"nan\"");
  EXPECT_EQ(error_of("ln", {{"eps", "0"}}), "ln: eps must be a number in (0, 1], got \"0\"");
  EXPECT_EQ(error_of("un", {{"warmup", "4k"}}), "un: warmup must be an integer of at least 0, got \"4k\"");
  EXPECT_EQ(error_of("un", {{"warmup", ""}}), "un: warmup must be an integer of at least 0, got \"\"");
  EXPECT_EQ(error_of("un", {{"filtration", "yes"}}), "un: filtration must be 0 or 1, got \"yes\"");
  EXPECT_EQ(error_of("un", {{"mode", "code"}}), "un: mode must be one of paper, reference, got \"code\"");
  EXPECT_EQ(error_of("groupnorm", {{"groups", "3"}}), "groupnorm: groups must divide the number of channels, 8, got 3");
  EXPECT_EQ(error_of("pn", {{"groups", "3"}}), "pn: groups must divide the number of channels, 8, got 3");
  EXPECT_EQ(error_of("rmsnorm", {{"partial", "0.1"}}),
            "rmsnorm: partial must leave at least one of 8 channels, got 0.1");
  EXPECT_EQ(error_of("centernorm", {}, 1), "centernorm: needs at least 2 channels, got 1");
  EXPECT_EQ(error_of("ln", {}, 0), "norm (ln): channels must be at least 1, got 0");
  EXPECT_EQ(error_of("deepnorm", {{"decoder_layers", "0"}, {"stack", "decoder"}}),
            "deepnorm: decoder_layers must be at least 1 with stack = decoder, got 0");
}

TEST(NormalizerOptions, OptionsFollowOthers) {
  const Options un = make_normalizer("un", {{"window", "6"}, {"alpha", "0.5"}}, "n", 8)->options().all();
  EXPECT_EQ(un.at("window_backward"), "6");
  EXPECT_EQ(un.at("alpha_backward"), "0.5");
  EXPECT_EQ(un.at("granularity"), "pooled");
  const Options released = make_normalizer("un", {{"mode", "reference"}}, "n", 8)->options().all();
  EXPECT_EQ(released.at("granularity"), "pooled");
  EXPECT_EQ(released.at("rescale"), "backward");
  EXPECT_EQ(released.at("hold_non_finite"), "0");
}

}  // namespace
}  // namespace foldgrad::testing
