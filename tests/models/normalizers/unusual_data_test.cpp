// Tests every normalizer on NaN, on infinity, on constant and zero channels and tokens, and on batches of only padding.
// docs/normalizers.md has a table of the results.
#include "tests/models/normalizers/quick_normalizer.h"

namespace foldgrad::testing {
namespace {

// The unusual element is in channel kBadChannel of token kBadToken of sample 0.
constexpr std::int64_t kSamples = 2, kSampleTokens = 4, kBadChannel = 3, kBadToken = 1;

struct UnusualRow {
  std::string normalizer;
  Options options;
  std::string nan, infinity;  // the part of y that is not finite, as spread() names it
  bool spoils = false;        // true if the value enters the state, as in the released code
};

const Options kShort{{"warmup", "2"}, {"window", "2"}}, kWarm{{"warmup", "2"}};
Options with(Options all, const char* name, const char* value) {
  all[name] = value;
  return all;
}

std::vector<UnusualRow> unusual_rows() {
  return {
      {"un", kShort, "element", "element"},
      {"un", with(kShort, "hold_non_finite", "0"), "channel", "element", true},
      {"un", with(kShort, "mode", "reference"), "channel", "element", true},
      {"mabn", kShort, "element", "element"},
      {"mabn", with(kShort, "mode", "reference"), "channel", "element", true},
      {"pn_star", kWarm, "element", "element"},
      {"pn_star", with(kWarm, "mode", "reference"), "element", "element", true},
      {"pn", with(kWarm, "groups", "4"), "group", "element"},
      {"pn", with(with(kWarm, "groups", "4"), "mode", "reference"), "group", "element", true},
      {"bn", {}, "channel", "channel"},
      {"rbn", {}, "channel", "channel"},
      {"qmbn", {}, "channel", "element"},
      {"repbn", {}, "channel", "channel"},
      {"prepbn", {}, "token and channel", "token and channel"},
      {"ln", {}, "token", "token"},
      {"deepnorm", {}, "token", "token"},
      {"centernorm", {}, "token", "token"},
      {"rmsnorm", {}, "token", "element"},
      {"scalenorm", {}, "token", "element"},
      {"fixnorm", {}, "token", "element"},
      {"groupnorm", {{"groups", "4"}}, "sample's group", "sample's group"},
      {"groupnorm", {{"groups", "4"}, {"axes", "token"}}, "group", "group"},
      {"instancenorm", {}, "sample's channel", "sample's channel"},
      {"dyt", {}, "element", "none"},
      {"derf", {}, "element", "none"},
      {"affine", {}, "element", "element"},
      {"scale", {}, "element", "element"},
      {"none", {}, "element", "element"},
  };
}

Step step(Normalizer& norm, const Tensor& x, std::optional<std::int64_t> counted = {}) {
  return train_step(norm, x, randn(x.shape(), 99), counted);
}
Tensor normal(unsigned seed) { return randn({kSamples, kSampleTokens, kChannels}, seed, 1, 0.3); }

// Returns a normalizer that has been trained for five steps and thus uses its averages.
std::unique_ptr<Normalizer> trained(const UnusualRow& row) {
  auto norm = make_normalizer(row.normalizer, row.options, "norm", kChannels, DType::f64);
  for (unsigned t = 0; t < 5; ++t) step(*norm, normal(t));
  return norm;
}

bool finite(const Tensor& t) {
  for (double v : t.to(DType::f64).values<double>())
    if (!std::isfinite(v)) return false;
  return true;
}
bool finite_state(const Normalizer& norm) {
  for (const auto& [name, tensor] : norm.state())
    if (!finite(tensor)) return false;
  return true;
}

// Returns a name for the set of elements that are not finite.
std::string spread(const Tensor& y) {
  const std::vector<double> values = y.values<double>();
  const auto is = [&](const auto& inside) {
    for (std::int64_t s = 0; s < kSamples; ++s)
      for (std::int64_t t = 0; t < kSampleTokens; ++t)
        for (std::int64_t c = 0; c < kChannels; ++c)
          if (std::isfinite(values[std::size_t((s * kSampleTokens + t) * kChannels + c)]) == inside(s, t, c))
            return false;
    return true;
  };
  const auto token = [](auto s, auto t) { return s == 0 && t == kBadToken; };
  const auto group = [](auto c) { return c / 2 == kBadChannel / 2; };  // 4 groups of 2 channels
  if (finite(y)) return "none";
  if (is([&](auto s, auto t, auto c) { return token(s, t) && c == kBadChannel; })) return "element";
  if (is([&](auto s, auto t, auto) { return token(s, t); })) return "token";
  if (is([&](auto s, auto t, auto c) { return token(s, t) && group(c); })) return "group";
  if (is([&](auto, auto, auto c) { return c == kBadChannel; })) return "channel";
  if (is([&](auto s, auto t, auto c) { return token(s, t) || c == kBadChannel; })) return "token and channel";
  if (is([&](auto s, auto, auto c) { return s == 0 && c == kBadChannel; })) return "sample's channel";
  if (is([&](auto s, auto, auto c) { return s == 0 && group(c); })) return "sample's group";
  return "elsewhere";
}

TEST(NormalizerUnusualData, OneElementThatIsNotFinite) {
  for (const UnusualRow& row : unusual_rows())
    for (const double bad : {double(NAN), double(INFINITY)}) {
      SCOPED_TRACE(row.normalizer + (std::isnan(bad) ? ", NaN" : ", infinity"));
      for (const auto& [name, value] : row.options) SCOPED_TRACE(name + " = " + value);
      const auto norm = trained(row);
      const Tensor x = normal(50);
      x.data<double>()[kBadToken * kChannels + kBadChannel] = bad;
      EXPECT_EQ(spread(step(*norm, x).y), std::isnan(bad) ? row.nan : row.infinity);
      EXPECT_EQ(finite_state(*norm), !row.spoils);
      // Ten steps with finite values do not remove the value from the state, so inference would use it, too.
      for (unsigned t = 60; t < 70; ++t) step(*norm, normal(t));
      EXPECT_EQ(finite_state(*norm), !row.spoils);
      if (!row.spoils) {
        EXPECT_TRUE(finite(step(*norm, normal(70)).y));
      }
    }
}

// Multiplying by a power of two does not round, and eps is negligible compared with these squares. So normalizing 2^80
// x, whose squares overflow in f32, must give the same result as normalizing 2^10 x. Running statistics that f32 cannot
// represent are not stored.
TEST(NormalizerUnusualData, SquaresThatOverflow) {
  for (const std::string name : {"ln", "rmsnorm", "scalenorm", "groupnorm", "instancenorm", "bn", "qmbn", "rbn"})
    for (const Device device : devices())
      for (const std::int64_t channels : {6, 40, 1500}) {
        SCOPED_TRACE(fmt::format("{} on {}, {} channels", name, foldgrad::name(device), channels));
        const Options options = name == "groupnorm" ? Options{{"groups", "2"}} : Options{};
        const auto norm = make_normalizer(name, options, "norm", channels, DType::f32, device);
        const Tensor unit = randn({1, 70, channels}, 7).to(DType::f32);
        const auto train = [&](double factor) {
          const Tensor x = unit.clone();
          for (std::int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] *= float(factor);
          return train_step(*norm, x.to(device), randn(x.shape(), 8).to(DType::f32).to(device));
        };
        const Tensor want = train(0x1p10).y;
        const NamedTensors before = norm->snapshot();
        const Step got = train(0x1p80);
        const std::vector<double> ys = got.y.to(Device::cpu).to(DType::f64).values<double>(),
                                  wanted = want.to(Device::cpu).to(DType::f64).values<double>();
        for (std::size_t i = 0; i < ys.size(); ++i)
          ASSERT_NEAR(ys[i], wanted[i], 1e-5 * std::max(1.0, std::fabs(wanted[i])));
        EXPECT_TRUE(finite(got.dx.to(Device::cpu)));
        for (const char* running : {"run_mean", "run_var"})
          if (before.contains(running)) {
            EXPECT_TRUE(identical(norm->state().at(running), before.at(running))) << running;
          }
      }
}

// Results and state stay finite. A normalizer that subtracts the mean turns a constant channel or token into its bias,
// which is 0.
TEST(NormalizerUnusualData, ConstantAndZeroChannelsAndTokens) {
  for (const UnusualRow& row : unusual_rows())
    for (const double value : {2.0, 0.0})
      for (const bool channel : {true, false}) {
        SCOPED_TRACE(row.normalizer + (channel ? ", a channel of " : ", a token of ") + std::to_string(value));
        const auto norm = trained(row);
        for (unsigned t = 0; t < 4; ++t) {
          const Tensor x = normal(t);
          for (std::int64_t i = 0; i < x.size(); ++i)
            if (channel ? i % kChannels == kBadChannel : i / kChannels == kBadToken) x.data<double>()[i] = value;
          const Step got = step(*norm, x);
          EXPECT_TRUE(finite(got.y) && finite(got.dx));
          EXPECT_TRUE(finite_state(*norm));
          const double y = got.y.data<double>()[channel ? kBadChannel : kBadToken * kChannels];
          const bool mean_of_channel =
              row.normalizer == "bn" || row.normalizer == "rbn" || row.normalizer == "instancenorm";
          const bool mean_of_token = row.normalizer == "ln" || row.normalizer == "deepnorm" ||
                                     row.normalizer == "centernorm" || row.options.count("axes");
          if (channel ? mean_of_channel : mean_of_token) {
            EXPECT_NEAR(y, 0, 1e-12);
          }
        }
      }
}

// A batch of only padding has no statistics, so it changes only the counters of iterations, steps and skips.
TEST(NormalizerUnusualData, NoRealToken) {
  for (const UnusualRow& row : unusual_rows()) {
    SCOPED_TRACE(row.normalizer);
    const auto norm = trained(row);
    const NamedTensors before = norm->snapshot();
    const Step got = step(*norm, normal(50), /*counted=*/0);
    EXPECT_TRUE(finite(got.y) && finite(got.dx));
    for (const auto& [name, tensor] : norm->state()) {
      if (name == "iters" || name == "steps" || name == "skips") {
        EXPECT_EQ(tensor.item(), before.at(name).item() + 1) << name;
      } else {
        EXPECT_TRUE(identical(tensor, before.at(name))) << name;
      }
    }
  }
}

TEST(NormalizerUnusualData, EveryNormalizerHasARow) {
  for (const NormalizerInfo& info : normalizers()) {
    int found = 0;
    for (const UnusualRow& row : unusual_rows()) found += row.normalizer == info.name;
    EXPECT_GT(found, 0) << info.name;
  }
}

}  // namespace
}  // namespace foldgrad::testing
