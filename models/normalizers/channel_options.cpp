#include "models/normalizers/channel_options.h"

#include "models/options/names.h"

namespace foldgrad {

constexpr auto names_of(ForwardAverage) { return std::array{"none", "arithmetic", "geometric", "exponential"}; }
constexpr auto names_of(BackwardAverage) {
  return std::array{"none", "arithmetic", "exponential", "arithmetic_exponential"};
}
constexpr auto names_of(Granularity) { return std::array{"channel", "layer_any", "layer_sum", "pooled"}; }
constexpr auto names_of(PsiAfterSkip) { return std::array{"ema", "literal", "freeze"}; }
constexpr auto names_of(Rescale) { return std::array{"none", "backward", "both"}; }

namespace {

template <Named Enum>
NormalizerOption enum_option(const char* name, Enum default_value, const char* help, const char* in_reference = "") {
  constexpr auto names = names_of(Enum());
  return choice_option(name, {names.begin(), names.end()}, foldgrad::name(default_value), help, in_reference);
}

template <Named Enum>
void choose(Enum& chosen, const NormalizerSite& s, const char* option) {
  for (Enum e : values_of(Enum()))
    if (s.options.text(option) == name(e)) chosen = e;
}

bool has(const NormalizerSite& s, const char* option) { return s.options.all().count(option) > 0; }

}  // namespace

bool is_released(const NormalizerSite& s) { return has(s, "mode") && s.options.text("mode") == "reference"; }

ChannelNormOptions channel_options(const NormalizerSite& s, Published paper, Published code) {
  ChannelNormOptions o = is_released(s) ? code() : paper();
  o.alpha_forward = o.alpha_backward = s.options.number("alpha");
  o.eps = s.options.number("eps");
  if (has(s, "warmup")) o.warmup = s.options.integer("warmup");
  if (has(s, "window")) o.window_forward = o.window_backward = s.options.integer("window");
  if (!s.info.outlier_test) return o;
  o.alpha_backward = s.options.number("alpha_backward");
  o.window_backward = s.options.integer("window_backward");
  choose(o.forward, s, "forward_average");
  choose(o.backward, s, "backward_average");
  o.filtration = s.options.flag("filtration");
  choose(o.granularity, s, "granularity");
  o.ddof = int(s.options.integer("ddof"));
  o.flag_low = s.options.flag("flag_low");
  o.hold_on_skip = s.options.flag("hold_on_skip");
  o.hold_non_finite = o.finite_state = s.options.flag("hold_non_finite");
  choose(o.psi_after_skip, s, "psi_after_skip");
  choose(o.rescale, s, "rescale");
  return o;
}

NormalizerOption mode_option() {
  return choice_option("mode", {"paper", "reference"}, "paper",
                       "compute as the paper does (paper) or as the authors' released code does (reference)");
}
NormalizerOption window_option(const char* default_value) {
  return integer_option("window", default_value, "number of iterations in a window of statistics", within(1, 1e6));
}
NormalizerOption warmup_option(const char* default_value) {
  return integer_option("warmup", default_value, "first iteration (counted from 1) that uses averages", at_least(0));
}

NormalizerWarmup before_averages(const NormalizerOptions& o) {
  constexpr const char* kMeanwhile = "uses no averages";
  const std::int64_t warmup = o.integer("warmup");
  if (o.all().count("forward_average") == 0) return {warmup, {"warmup"}, kMeanwhile};
  const std::string &forward = o.text("forward_average"), &backward = o.text("backward_average");
  if (forward == name(ForwardAverage::none) && backward == name(BackwardAverage::none)) return {};
  const bool windowed = forward == name(ForwardAverage::arithmetic) || forward == name(ForwardAverage::geometric);
  const std::int64_t window = o.integer("window");
  if (windowed && window == 1) return {};
  if (windowed && window >= warmup) return {window + 1, {"window"}, kMeanwhile};
  return {warmup, {"warmup"}, kMeanwhile};
}

std::vector<NormalizerOption> un_options() {
  return {
      mode_option(),
      window_option("4"),
      renamed(window_option("=window"), "window_backward", "number of iterations in a window of gradient statistics"),
      warmup_option("4000"),
      alpha_option("0.9"),
      renamed(alpha_option("=alpha"), "alpha_backward",
              "weight of the old value in the running average of gradient statistics"),
      eps_option("1e-5"),
      flag_option("filtration", "0", "skip iterations with outliers"),
      enum_option("granularity", Granularity::pooled,
                  "which windows decide whether an iteration is an outlier, and which channels then skip it"),
      integer_option("ddof", "1", "1 to use the unbiased variance in the outlier threshold, 0 for the biased one",
                     within(0, 1)),
      flag_option("flag_low", "1", "treat sudden drops of the statistic as outliers too"),
      flag_option("hold_on_skip", "0",
                  "do not update the running variance in skipped iterations (at most 32 in a row)"),
      flag_option("hold_non_finite", "1", "use the running estimates for channels with NaN or infinity", "0"),
      enum_option("psi_after_skip", PsiAfterSkip::ema, "how to update the running psi after a skipped iteration"),
      enum_option("rescale", Rescale::none, "in which passes to multiply by the released code's factor r", "backward"),
      enum_option("forward_average", ForwardAverage::geometric, "how to average the window into a variance"),
      enum_option("backward_average", BackwardAverage::arithmetic_exponential,
                  "how to average gradient statistics into psi")};
}

}  // namespace foldgrad
