// Normalizers with statistics per channel (ops/channel_norm/, ops/power_norm/).
#include "models/normalizers/kinds.h"
#include "models/options/names.h"
#include "ops/channel_norm/channel_norm_math.h"
#include "ops/power_norm/power_norm.h"
#include "ops/rbn_penalty/rbn_penalty.h"

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

// Returns true if it computes like the authors' released code; configurations call that mode "reference".
bool released(const NormalizerSite& s) { return has(s, "mode") && s.options.text("mode") == "reference"; }

using Published = ChannelNormOptions (*)();

// Returns the options of the paper, or of the released code, overridden by those of the site.
ChannelNormOptions options_of(const NormalizerSite& s, Published paper, Published code) {
  ChannelNormOptions o = released(s) ? code() : paper();
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

// The scaling by groups of `pn`. Other normalizers have 0 groups.
struct GroupScaling {
  std::int64_t groups;
  double eps;

  explicit GroupScaling(const NormalizerSite& s)
      : groups(has(s, "groups") ? s.options.integer("groups") : 0), eps(s.options.number("eps")) {
    FOLDGRAD_CHECK(groups == 0 || s.channels % groups == 0, "pn: groups must divide {} channels, got {}", s.channels,
                   groups);
  }
  Var operator()(const Var& x) const { return groups ? group_rms(x, groups, eps) : x; }
  InferenceForm before(AffineMap map) const {
    if (groups == 0) return {.map = std::move(map)};
    return {.map = std::move(map), .instead = InferenceForm::Groups{groups, /*centered=*/false, eps}};
  }
};

class ChannelNormalizer : public WithGainAndBias {
 public:
  // `code` is given if the normalizer has an option `mode`.
  ChannelNormalizer(const NormalizerSite& s, Published paper, Published code = nullptr)
      : WithGainAndBias(s),
        norm_(options_of(s, paper, code)),
        scaling_(s),
        state_(ChannelNormState::create(norm_, s.channels, s.state_dtype(), s.device)) {}

  NamedTensors state() const override { return state_.named(); }
  std::optional<InferenceForm> inference() const override {
    return scaling_.before(channel_affine(state_, gamma_.value, beta_.value, norm_));
  }
  NormDiagnostics diagnostics() const override {
    NormDiagnostics d = Normalizer::diagnostics();
    if (norm_.rescale == Rescale::none || d.window.empty()) return d;
    const std::vector<double> run_var = state_.run_var.to(Device::cpu).to(DType::f64).values<double>();
    d.clamped = 0;
    for (std::size_t c = 0; c < run_var.size(); ++c) {
      const double var_hat =
          norm_.forward == ForwardAverage::geometric ? d.window[c].geometric : d.window[c].arithmetic;
      const double r = channel_norm_math::rescale(norm_, double(d.iterations), var_hat, run_var[c]);
      if (r == 0.2 || r == 5) ++*d.clamped;
    }
    return d;
  }

 protected:
  Var forward(const Var& x, const NormContext& context) override {
    const Var in = scaling_(x);
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    return channel_norm(in, gamma, beta, state_, norm_, context.channel_pass(), std::move(record_));
  }
  Var recorded(const Var& x, const NormContext& context, std::shared_ptr<ChannelRecord> record) override {
    record_ = std::move(record);
    return forward(x, context);
  }

  ChannelNormOptions norm_;
  GroupScaling scaling_;
  ChannelNormState state_;

 private:
  std::shared_ptr<ChannelRecord> record_;  // of the next pass
};

class RegularizedNormalizer final : public ChannelNormalizer {
 public:
  explicit RegularizedNormalizer(const NormalizerSite& s) : ChannelNormalizer(s, ChannelNormOptions::rbn) {}

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const Var y = ChannelNormalizer::forward(x, context);
    if (context.training && context.penalties)
      context.penalties->push_back(rbn_penalty(x, state_, options().number("mean_weight"),
                                               options().number("variance_weight"), context.communicator));
    return y;
  }
};

// pn and pn_star as released.
class PowerNormalizer final : public WithGainAndBias {
 public:
  explicit PowerNormalizer(const NormalizerSite& s)
      : WithGainAndBias(s),
        norm_{.warmup = s.options.integer("warmup"),
              .alpha_forward = s.options.number("alpha"),
              .alpha_backward = s.options.number("alpha"),
              .eps = s.options.number("eps")},
        scaling_(s),
        state_(PowerNormState::create(s.channels, s.state_dtype(), s.device)) {}

  NamedTensors state() const override { return state_.named(); }
  std::optional<InferenceForm> inference() const override {
    return scaling_.before(power_norm_affine(state_, gamma_.value, beta_.value, norm_));
  }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const Var in = scaling_(x);
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    return power_norm(in, gamma, beta, state_, norm_, context.channel_pass());
  }

  PowerNormOptions norm_;
  GroupScaling scaling_;
  PowerNormState state_;
};

std::unique_ptr<Normalizer> make_power(const NormalizerSite& s) {
  return released(s) ? make<PowerNormalizer>(s) : make<ChannelNormalizer, ChannelNormOptions::pn_star>(s);
}

NormalizerOption mode_option() {
  return choice_option("mode", {"paper", "reference"}, "paper",
                       "as the paper says, or, reference, as the authors' released code computes");
}
NormalizerOption window_option(const char* default_value) {
  return integer_option("window", default_value, "iterations in the windows of statistics", within(1, 1e6));
}
NormalizerOption warmup_option(const char* default_value) {
  return integer_option("warmup", default_value, "first iteration that uses averages, counting from 1", at_least(0));
}

// Returns the iterations before channel_norm_math::active() is true, or 0 if the options never average.
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
      renamed(window_option("=window"), "window_backward", "the window of gradient statistics"),
      warmup_option("4000"),
      alpha_option("0.9"),
      renamed(alpha_option("=alpha"), "alpha_backward",
              "weight of the old value in the average of gradient statistics"),
      eps_option("1e-5"),
      flag_option("filtration", "0", "skip iterations with outliers"),
      enum_option("granularity", Granularity::pooled,
                  "whose windows decide which channels skip an iteration with outliers"),
      integer_option("ddof", "1", "1: unbiased variance in the outlier threshold", within(0, 1)),
      flag_option("flag_low", "1", "treat drops of the statistic as outliers as well"),
      flag_option("hold_on_skip", "0", "skipped iterations, 32 in a row at most, stay out of the running variance"),
      flag_option("hold_non_finite", "1", "channels with NaN or infinity use their running estimates", "0"),
      enum_option("psi_after_skip", PsiAfterSkip::ema, "running psi after a skip"),
      enum_option("rescale", Rescale::none, "passes in which the factor r of the released code multiplies", "backward"),
      enum_option("forward_average", ForwardAverage::geometric, "average of the window that gives the variance"),
      enum_option("backward_average", BackwardAverage::arithmetic_exponential,
                  "average of gradient statistics that gives psi")};
}

}  // namespace

std::vector<NormalizerKind> channel_normalizers() {
  return {
      {{.name = "un",
        .inference = Inference::affine,
        .summary = "Unified Normalization: averages of the last statistics, outliers skipped",
        .options = un_options(),
        .outlier_test = true,
        .warmup = before_averages},
       make<ChannelNormalizer, ChannelNormOptions::un, ChannelNormOptions::un_released>},
      {{"bn", Inference::affine, "batch normalization over real tokens", {alpha_option("0.9"), eps_option("1e-5")}},
       make<ChannelNormalizer, ChannelNormOptions::bn>},
      {{"qmbn",
        Inference::affine,
        "batch normalization by the mean square: UN without averages",
        {alpha_option("0.9"), eps_option("1e-5")}},
       make<ChannelNormalizer, ChannelNormOptions::qmbn>},
      {{"rbn",
        Inference::affine,
        "batch normalization whose batch statistics are pulled to the running ones",
        {alpha_option("0.95"), eps_option("1e-5"),
         number_option("mean_weight", "0.1", "loss weight of the distance between means", at_least(0)),
         number_option("variance_weight", "0.01", "loss weight of the distance between variances", at_least(0))}},
       make<RegularizedNormalizer>},
      {{.name = "mabn",
        .inference = Inference::affine,
        .summary = "Moving Average Batch Normalization",
        .options = {mode_option(), window_option("4"), warmup_option("100"), alpha_option("0.98"), eps_option("1e-5")},
        .warmup = before_averages},
       make<ChannelNormalizer, ChannelNormOptions::mabn, ChannelNormOptions::mabn_released>},
      {{.name = "pn_star",
        .inference = Inference::affine,
        .summary = "PowerNorm without its scaling of groups",
        .options = {mode_option(), warmup_option("10000"), alpha_option("0.9"), eps_option("1e-5")},
        .warmup = before_averages},
       make_power},
      {{.name = "pn",
        .inference = Inference::online,
        .summary = "PowerNorm: groups of channels divided by their root mean square, then pn_star",
        .options = {mode_option(), warmup_option("10000"), alpha_option("0.9"), eps_option("1e-5"),
                    integer_option("groups", "1", "groups of channels that share a scale; heads", at_least(1))},
        .warmup = before_averages},
       make_power},
  };
}

}  // namespace foldgrad
