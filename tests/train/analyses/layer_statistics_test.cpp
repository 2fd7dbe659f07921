// Tests the statistics of each layer during training, progress lines, and the comparison with exact gradients.
#include "train/analyses/layer_statistics.h"

#include <cmath>

#include "models/normalizers/normalizer.h"
#include "tests/harness/compare.h"
#include "train/analyses/channel_values.h"
#include "train/runs/progress.h"

namespace foldgrad::testing {
namespace {

TEST(LayerStatistics, GradientNormsByLayer) {
  Parameter a{"encoder.layers.0.fc1.weight", Tensor::zeros({2}, DType::f32), Tensor::of<float>({2}, {3, 0}), true},
      b{"encoder.layers.0.fc2.bias", Tensor::zeros({1}, DType::f64), Tensor::of<double>({1}, {-4}), true},
      c{"encoder.layers.10.fc2.bias", Tensor::zeros({1}, DType::f32), Tensor::of<float>({1}, {2}), true},
      d{"encoder.embed_tokens.weight", Tensor::zeros({1}, DType::f32), Tensor::of<float>({1}, {1}), true},
      none{"decoder.layers.0.fc1.weight", Tensor::zeros({1}, DType::f32)};
  const std::map<std::string, double> want{
      {"encoder.layers.0", 5}, {"encoder.layers.10", 2}, {"encoder.embed_tokens", 1}};
  EXPECT_EQ(gradient_norms({&a, &b, &c, &d, &none}), want);
}

TEST(LayerStatistics, ArithmeticOverGeometricMeanOfAWindow) {
  // The three channels have the windows (1, 4), (3, 3) and (0, 5). The first two have the ratios 2.5 / 2 and 1. The
  // third does not count, since its geometric mean is 0.
  const auto un = make_normalizer("un", {{"window", "2"}}, "norm", 3);
  EXPECT_FALSE(am_over_gm(un->diagnostics().window));
  un->state().at("win_sq").copy_from(Tensor::of<float>({2, 3}, {1, 3, 0, 4, 3, 5}));
  const auto ratio = am_over_gm(un->diagnostics().window);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(*ratio, (1.25 + 1) / 2, 1e-15);
  EXPECT_FALSE(am_over_gm({}));
}

// The statistics contain four of the nine windows: those of channels 0, 2, 4 and 6. Channel c's window holds the mean
// squares c + 1 and 4 (c + 1).
TEST(LayerStatistics, WindowsOfSomeChannelsAndWhatIsClamped) {
  const auto un = make_normalizer("un", {{"window", "2"}, {"rescale", "backward"}}, "norm", 9);
  std::vector<float> window;
  for (float factor : {1.f, 4.f})
    for (int c = 0; c < 9; ++c) window.push_back(factor * float(c + 1));
  un->state().at("win_sq").copy_from(Tensor::of({2, 9}, window));
  // GM = 2 (c + 1). So r is clamped to 5 in channel 0 and to 1/5 in channel 1; the other channels are within these
  // limits.
  un->state().at("run_var").copy_from(Tensor::of<float>({9}, {0.01, 400, 6, 8, 10, 12, 14, 16, 18}));
  const auto site = [&] { return normalizer_statistics({un.get()}).at("norm"); };
  EXPECT_EQ(site().at("clamped"), 0) << "r is 1 up to iteration 4000";
  un->state().at("iters").copy_from(Tensor::of<std::int64_t>({}, {4001}));
  EXPECT_EQ(site().at("clamped"), 2);
  ASSERT_EQ(site().at("window").size(), 4u);
  for (int k = 0; k < 4; ++k) {
    const auto channel = site().at("window").at(std::size_t(k));
    EXPECT_EQ(channel.at("channel"), 2 * k);
    EXPECT_NEAR(channel.at("am").get<double>(), 2.5 * (2 * k + 1), 1e-12);
    EXPECT_NEAR(channel.at("gm").get<double>(), 2.0 * (2 * k + 1), 1e-12);
  }
}

TEST(LayerStatistics, WhatANormalizerHas) {
  const auto un = make_normalizer("un", {}, "a.norm", 3), ln = make_normalizer("ln", {}, "b.norm", 3),
             bn = make_normalizer("bn", {}, "c.norm", 3);
  EXPECT_EQ(normalizer_statistics({un.get(), ln.get(), bn.get()}).dump(),
            "{\"a.norm\":{\"iterations\":0,\"skips\":0,\"least_variance\":1.0,\"greatest_variance\":1.0,\"window\":["
            "{\"channel\":0,\"am\":0.0,\"gm\":0.0},{\"channel\":1,\"am\":0.0,\"gm\":0.0},"
            "{\"channel\":2,\"am\":0.0,\"gm\":0.0}]},"
            "\"c.norm\":{\"iterations\":0,\"skips\":0,\"least_variance\":1.0,\"greatest_variance\":1.0}}");
}

TEST(Progress, Line) {
  EXPECT_EQ(progress_line(500, 2000, 2.5, "loss 3.2100", 80),
            "[=====>              ] 500/2000  2.5 steps/s  10:00 left  loss 3.2100");
  EXPECT_EQ(progress_line(2000, 2000, 2.5, "", 80), "[====================] 2000/2000  2.5 steps/s  0:00 left");
  EXPECT_EQ(progress_line(0, 2000, 0, "", 80), "[>                   ] 0/2000");
  EXPECT_EQ(progress_line(500, 2000, 2.5, "loss 3.2100", 30), "[=====>              ] 500/200");
}

TEST(Progress, Durations) {
  EXPECT_EQ(duration_text(0.4), "0:00");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(3599), "59:59");
  EXPECT_EQ(duration_text(3661), "1:01:01");
}

std::string printed(bool on_terminal, const char* no_color) {
  setenv("NO_COLOR", no_color, 1);
  ::testing::internal::CaptureStderr();
  {
    ProgressLine progress(0, 10, on_terminal);
    progress.warn("disk");
    progress.print("step");
    progress.at(3);
  }
  unsetenv("NO_COLOR");
  return ::testing::internal::GetCapturedStderr();
}

TEST(Progress, PlainLinesElsewhereAndColoursOnlyWhereWanted) {
  EXPECT_EQ(printed(false, ""), "warning: disk\nstep\n");
  EXPECT_EQ(printed(true, "1"), "warning: disk\nstep\n");
  EXPECT_EQ(printed(true, ""), "\x1b[33mwarning:\x1b[0m disk\nstep\n");
}

double product(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

class Pass {
 public:
  static constexpr std::int64_t kRows = 5, kChannels = 3;
  static constexpr std::int64_t kCounted = 4;  // the last row is padding

  Pass(const std::string& name, const std::map<std::string, std::string>& options)
      : norm_(make_normalizer(name, options, "norm", kChannels, DType::f64)) {
    for (Parameter* p : norm_->parameters()) p->value.copy_from(randn({kChannels}, 7, 1, 1));
  }

  // Returns an input whose mean squares rise with `step` in the first two channels and fall in the third.
  Tensor x(int step) const {
    const Tensor x = randn({kRows, kChannels}, 11);
    for (std::int64_t i = 0; i < x.size(); ++i) x.data<double>()[i] *= std::pow(i % kChannels == 2 ? 0.8 : 1.3, step);
    return x;
  }
  // Returns a gradient that is zero in the padding row.
  Tensor dy(int step) const {
    const Tensor dy = randn({kRows, kChannels}, unsigned(20 + step));
    for (std::int64_t i = 0; i < dy.size(); ++i)
      if (i / kChannels >= kCounted) dy.data<double>()[i] = 0;
    return dy;
  }
  Tensor backward(int step) {
    Tape tape;
    const Var in = tape.variable(x(step));
    tape.backward(norm_->apply(in, context()), dy(step));
    return tape.grad(in);
  }
  // Returns the gradient of sum(dy y) by central differences. Every forward pass starts from the same state.
  Tensor exact(int step) {
    const NamedTensors before = norm_->snapshot();
    const Tensor gradient = Tensor::empty({kRows, kChannels}, DType::f64), weights = dy(step);
    for (std::int64_t i = 0; i < gradient.size(); ++i) {
      const auto loss = [&](double h) {
        const Tensor moved = x(step);
        moved.data<double>()[i] += h;
        Tape tape(/*recording=*/false);
        const Tensor y = norm_->apply(tape.constant(moved), context()).value();
        norm_->restore(before);
        return product(y, weights);
      };
      gradient.data<double>()[i] = (loss(1e-5) - loss(-1e-5)) / 2e-5;
    }
    return gradient;
  }
  GradientAgreement recorded(int step, Tensor& dx) {
    ChannelRecords records;
    norm_->record_into(&records);
    dx = backward(step);
    norm_->record_into(nullptr);
    return gradient_agreement(channel_values(*records.at(0)));
  }

 private:
  NormContext context() const { return {.training = true, .counted = kCounted}; }

  std::unique_ptr<Normalizer> norm_;
};

struct Case {
  std::string name;
  std::map<std::string, std::string> options;
  double lambda_below_1;  // -1 if var_hat is not an average
  bool estimate;          // true if dx is not the exact gradient
};

// Central differences are accurate to about 1e-9 here.
TEST(ExactGradient, CosineAndNormsAreThoseOfCentralDifferences) {
  const std::vector<Case> cases = {
      {"un", {{"warmup", "1"}, {"window", "2"}}, 2. / 3, true},
      {"un", {{"warmup", "1"}, {"window", "3"}, {"forward_average", "none"}}, -1, true},
      // The average of two entries, q and the previous q, is below q exactly if the previous q is below q. This also
      // holds for the geometric mean, so lambda_below_1 is the same.
      {"un", {{"warmup", "1"}, {"window", "2"}, {"forward_average", "arithmetic"}}, 2. / 3, true},
      {"un", {{"warmup", "100"}, {"window", "2"}}, -1, false},
      {"mabn", {{"warmup", "1"}}, 2. / 3, true},
      {"pn_star", {{"warmup", "1"}}, 2. / 3, true},
      {"qmbn", {}, -1, false}};
  for (const Case& of : cases) {
    Pass pass(of.name, of.options);
    for (int step = 0; step < 20; ++step) pass.backward(step % 5);
    Tensor dx;
    const Tensor exact = pass.exact(5);
    const GradientAgreement got = pass.recorded(5, dx);
    const double cosine = product(dx, exact) / std::sqrt(product(dx, dx) * product(exact, exact));
    EXPECT_NEAR(got.cosine, cosine, 1e-7) << of.name;
    EXPECT_NEAR(got.norm_ratio, std::sqrt(product(dx, dx) / product(exact, exact)), 1e-7) << of.name;
    EXPECT_EQ(std::abs(cosine - 1) > 1e-4, of.estimate) << of.name << ": " << cosine;
    if (of.lambda_below_1 == -1) {
      EXPECT_TRUE(std::isnan(got.lambda_below_1)) << of.name;
    } else {
      EXPECT_NEAR(got.lambda_below_1, of.lambda_below_1, 1e-15) << of.name;
    }
  }
}

}  // namespace
}  // namespace foldgrad::testing
