#include "models/normalizers/options.h"

#include "models/normalizers/normalizer.h"
#include "models/options/nearest_name.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {
namespace {

using Options = std::map<std::string, std::string>;

// Every default is a valid value and gives the same normalizer as leaving it out; so is every choice.
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
  EXPECT_EQ(error_of("none", {{"eps", "1"}}), "none: there is no option \"eps\": it has none");
}

TEST(NormalizerOptions, ErrorsNameTheRange) {
  EXPECT_EQ(error_of("bn", {{"alpha", "1.5"}}), "bn: alpha must be a number in [0, 1], got \"1.5\"");
  EXPECT_EQ(error_of("bn", {{"alpha", "nan"}}), "bn: alpha must be a number in [0, 1], got \"nan\"");
  EXPECT_EQ(error_of("ln", {{"eps", "0"}}), "ln: eps must be a number in (0, 1], got \"0\"");
  EXPECT_EQ(error_of("un", {{"warmup", "4k"}}), "un: warmup must be an integer of at least 0, got \"4k\"");
  EXPECT_EQ(error_of("un", {{"warmup", ""}}), "un: warmup must be an integer of at least 0, got \"\"");
  EXPECT_EQ(error_of("un", {{"filtration", "yes"}}), "un: filtration must be 0 or 1, got \"yes\"");
  EXPECT_EQ(error_of("un", {{"mode", "code"}}), "un: mode must be one of paper, reference, got \"code\"");
  EXPECT_EQ(error_of("groupnorm", {{"groups", "3"}}), "groupnorm: groups must divide 8 channels, got 3");
  EXPECT_EQ(error_of("pn", {{"groups", "3"}}), "pn: groups must divide 8 channels, got 3");
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
  EXPECT_EQ(un.at("granularity"), "layer_sum");
  const Options released = make_normalizer("un", {{"mode", "reference"}}, "n", 8)->options().all();
  EXPECT_EQ(released.at("granularity"), "pooled");
  EXPECT_EQ(released.at("rescale"), "backward");
  EXPECT_EQ(released.at("hold_non_finite"), "0");
}

}  // namespace
}  // namespace foldgrad::testing
