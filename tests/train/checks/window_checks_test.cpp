// Tests that the checks of normalizers' windows pass for states that training can produce, and fail for other states.
#include <cmath>
#include <functional>
#include <random>

#include "tests/train/used_model.h"
#include "train/checks/model_checks.h"

namespace foldgrad::testing {
namespace {

using Outcome = CheckResult::Outcome;

void set_state(Transformer& model, const std::string& buffer, const std::function<double(double)>& value) {
  for (const auto& [name, tensor] : model.state())
    if (name.ends_with("." + buffer))
      for (std::int64_t i = 0; i < tensor.size(); ++i) tensor.data<double>()[i] = value(tensor.data<double>()[i]);
}

TEST(WindowChecks, NoiseInWindowsIsFound) {
  for (const char* mode : {"paper", "reference"}) {
    const auto model = used_un({{"mode", mode}});
    EXPECT_EQ(check_windows(model->normalizers()).outcome, Outcome::passed) << mode;
    for (unsigned seed = 1; seed <= 20; ++seed) {
      std::mt19937_64 random(seed);
      std::uniform_real_distribution<double> decades(-18, 18);
      set_state(*model, "win_sq", [&](double) { return std::pow(10, decades(random)); });
      EXPECT_EQ(check_windows(model->normalizers()).outcome, Outcome::failed) << mode << seed;
    }
  }
}

TEST(WindowChecks, StatisticsThatWindowsDoNotBearOutAreFound) {
  const auto outcome = [](const char* buffer, const std::function<double(double)>& change) {
    const auto model = used_un();
    set_state(*model, buffer, change);
    return check_windows(model->normalizers()).outcome;
  };
  EXPECT_EQ(outcome("win_sq", [](double v) { return 3 * v; }), Outcome::passed);  // possible if mean squares have risen
  EXPECT_EQ(outcome("win_sq", [](double v) { return 20 * v; }), Outcome::failed);
  EXPECT_EQ(outcome("win_sq", [](double v) { return -v; }), Outcome::failed);
  EXPECT_EQ(outcome("run_var", [](double v) { return v / 20; }), Outcome::failed);
  EXPECT_EQ(outcome("run_var", [](double v) { return 150 * v; }), Outcome::passed);  // possible after an outlier
  EXPECT_EQ(outcome("run_var", [](double) { return NAN; }), Outcome::failed);
}

// An outlier in one of the last iterations must not make the check fail, whatever its effect on the state.
TEST(WindowChecks, WindowsWithOutliersPass) {
  for (const char* mode : {"paper", "reference"})
    for (const char* hold : {"0", "1"})
      for (std::uint32_t at = 8; at <= 12; ++at) {
        const auto model = used_un({{"mode", mode}, {"filtration", "1"}, {"hold_on_skip", hold}}, at);
        const CheckResult r = check_windows(model->normalizers());
        EXPECT_EQ(r.outcome, Outcome::passed) << mode << hold << at << r.measured;
        EXPECT_NE(r.measured.find("% of iterations were skipped ("), std::string::npos) << r.measured;
      }
}

TEST(WindowChecks, WindowsThatAreNotFullAreSkipped) {
  for (const auto& [normalizer, options] : {std::pair("un", Options{{"window", "12"}}),
                                            {"un", Options{{"window", "1"}}},
                                            {"un", Options{{"forward_average", "none"}}},
                                            {"ln", Options{}}}) {
    const auto model = used_model(normalizer, options);
    EXPECT_EQ(check_windows(model->normalizers()).outcome, Outcome::skipped) << normalizer;
    EXPECT_EQ(check_replays(outlier_tests(*model, "layer_any")).outcome, Outcome::skipped) << normalizer;
    EXPECT_EQ(check_outliers(outlier_tests(*model, "channel")).outcome, Outcome::skipped) << normalizer;
  }
}

// A replayed statistic equals the window entry that it replaces. One channel has the window (1, 1, 1, 100), and the
// other 99 channels have windows of ones. With these windows, only the pooled test, which the released code uses, fires
// on a replay.
TEST(WindowChecks, UN_18_ATestThatFiresOnAReplayIsFound) {
  for (const char* granularity : {"channel", "layer_any", "layer_sum", "pooled"}) {
    OwnedNormalizers sites;
    sites.push_back(make_normalizer("un", {{"filtration", "1"}, {"warmup", "0"}, {"granularity", granularity}}, "site",
                                    100, DType::f64));
    const NamedTensors state = sites[0]->state();
    const Tensor window = state.at("win_sq");
    for (std::int64_t i = 0; i < window.size(); ++i) window.data<double>()[i] = i == 307 ? 100 : 1;
    state.at("iters").data<std::int64_t>()[0] = 8;
    const CheckResult r = check_replays(sites);
    EXPECT_EQ(r.outcome, std::string(granularity) == "pooled" ? Outcome::failed : Outcome::passed) << r.measured;
  }
}

TEST(WindowChecks, UN_19_ATestThatFiresOtherwiseIsFound) {
  const auto model = used_un();
  const auto outcome = [&](const Options& changes) {
    OwnedNormalizers sites = outlier_tests(*model, "channel");
    for (auto& site : sites) {
      Options options = site->options().all();
      for (const auto& [name, value] : changes) options[name] = value;
      auto other = make_normalizer("un", options, site->site(), site->channels(), DType::f64);
      other->restore(site->snapshot());
      site = std::move(other);
    }
    return check_outliers(sites).outcome;
  };
  EXPECT_EQ(outcome({}), Outcome::passed);
  EXPECT_EQ(outcome({{"ddof", "0"}}), Outcome::passed);
  EXPECT_EQ(outcome({{"flag_low", "0"}}), Outcome::passed);
  EXPECT_EQ(outcome({{"filtration", "0"}}), Outcome::failed);
  for (const char* rule : {"layer_any", "layer_sum", "pooled"})
    EXPECT_EQ(outcome({{"granularity", rule}}), Outcome::failed);
}

TEST(WindowChecks, OutlierTestsAreThoseOfThePaper) {
  EXPECT_EQ(outlier_tests(*used_un(), "channel").size(), 7u);
  EXPECT_EQ(outlier_tests(*used_un({{"mode", "reference"}}), "channel").size(), 0u);
}

}  // namespace
}  // namespace foldgrad::testing
