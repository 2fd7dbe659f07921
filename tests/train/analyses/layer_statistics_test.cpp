#include "train/analyses/layer_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "train/runs/progress.h"

namespace foldgrad {
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
  // Channels (1, 4): 2.5 / 2; (3, 3): 1; (0, 5) has no geometric mean.
  const auto un = make_normalizer("un", {{"window", "2"}}, "norm", 3);
  EXPECT_FALSE(am_over_gm(un->diagnostics().window));
  un->state().at("win_sq").copy_from(Tensor::of<float>({2, 3}, {1, 3, 0, 4, 3, 5}));
  const auto ratio = am_over_gm(un->diagnostics().window);
  ASSERT_TRUE(ratio);
  EXPECT_NEAR(*ratio, (1.25 + 1) / 2, 1e-15);
  EXPECT_FALSE(am_over_gm({}));
}

// Of nine channels 0, 2, 4 and 6. Channel c had the mean squares c + 1 and 4 (c + 1).
TEST(LayerStatistics, WindowsOfSomeChannelsAndWhatIsClamped) {
  const auto un = make_normalizer("un", {{"window", "2"}, {"rescale", "backward"}}, "norm", 9);
  std::vector<float> window;
  for (float factor : {1.f, 4.f})
    for (int c = 0; c < 9; ++c) window.push_back(factor * float(c + 1));
  un->state().at("win_sq").copy_from(Tensor::of({2, 9}, window));
  // GM = 2 (c + 1): r is 5 for c = 0, 1/5 for c = 1, and between for all others.
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

}  // namespace
}  // namespace foldgrad
