// Normalizers with statistics per channel (ops/channel_norm/, ops/power_norm/).
#include "models/normalizers/kinds.h"
#include "ops/channel_norm/channel_norm_math.h"
#include "ops/channel_norm/rbn_penalty.h"
#include "ops/power_norm/group_rms.h"
#include "ops/power_norm/power_norm.h"

namespace foldgrad {
namespace {

using Kind = NormalizerOption::Kind;

// The choice by its place in the list, which is that of the enumerators.
template <class Enum>
Enum choice(const NormalizerSite& s, const char* name) {
  for (const NormalizerOption& option : s.info.options)
    if (option.name == name)
      for (std::size_t i = 0; i < option.choices.size(); ++i)
        if (option.choices[i] == s.options.text(name)) return Enum(i);
  throw std::out_of_range(name);
}

// Whether it computes as the authors' released code does; configurations call that mode "reference".
bool released(const NormalizerSite& s) { return s.options.text("mode") == "reference"; }

void set_averages(ChannelNormOptions& o, const NormalizerSite& s) {
  o.alpha_forward = o.alpha_backward = s.options.number("alpha");
  o.eps = s.options.number("eps");
}
void set_warmup(ChannelNormOptions& o, const NormalizerSite& s) { o.warmup = s.options.integer("warmup"); }

ChannelNormOptions plain(const NormalizerSite& s, ChannelNormOptions o) {
  set_averages(o, s);
  return o;
}

ChannelNormOptions mabn(const NormalizerSite& s) {
  ChannelNormOptions o = released(s) ? ChannelNormOptions::mabn_released() : ChannelNormOptions::mabn();
  set_averages(o, s);
  set_warmup(o, s);
  o.window_forward = o.window_backward = s.options.integer("window");
  return o;
}

ChannelNormOptions pn_star(const NormalizerSite& s) {
  ChannelNormOptions o = ChannelNormOptions::pn_star();
  set_averages(o, s);
  set_warmup(o, s);
  return o;
}

ChannelNormOptions un(const NormalizerSite& s) {
  ChannelNormOptions o = released(s) ? ChannelNormOptions::un_released() : ChannelNormOptions::un();
  set_averages(o, s);
  set_warmup(o, s);
  o.alpha_backward = s.options.number("alpha_backward");
  o.window_forward = s.options.integer("window");
  o.window_backward = s.options.integer("window_backward");
  o.forward = choice<ForwardAverage>(s, "forward_average");
  o.backward = choice<BackwardAverage>(s, "backward_average");
  o.filtration = s.options.flag("filtration");
  o.granularity = choice<Granularity>(s, "granularity");
  o.ddof = int(s.options.integer("ddof"));
  o.flag_low = s.options.flag("flag_low");
  o.hold_on_skip = s.options.flag("hold_on_skip");
  o.hold_non_finite = s.options.flag("hold_non_finite");
  o.psi_after_skip = choice<PsiAfterSkip>(s, "psi_after_skip");
  o.mask = choice<StatisticMask>(s, "mask");
  o.rescale = choice<Rescale>(s, "rescale");
  return o;
}

ChannelNormOptions options_of(const NormalizerSite& s) {
  const std::string& name = s.info.name;
  if (name == "bn") return plain(s, ChannelNormOptions::bn());
  if (name == "qmbn") return plain(s, ChannelNormOptions::qmbn());
  if (name == "rbn") return plain(s, ChannelNormOptions::rbn());
  if (name == "mabn") return mabn(s);
  return name == "un" ? un(s) : pn_star(s);  // pn is pn_star behind its scaling
}

// The scaling by groups of `pn`; other normalizers have none, 0 groups.
struct GroupScaling {
  std::int64_t groups;
  double eps;

  explicit GroupScaling(const NormalizerSite& s)
      : groups(s.info.name == "pn" ? s.options.integer("groups") : 0), eps(s.options.number("eps")) {
    FOLDGRAD_CHECK(groups == 0 || s.channels % groups == 0, "pn: groups must divide {} channels, got {}", s.channels,
                   groups);
  }
  Var operator()(const Var& x) const { return groups ? group_rms(x, groups, eps) : x; }
};

class ChannelNormalizer final : public Normalizer {
 public:
  explicit ChannelNormalizer(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        norm_(options_of(s)),
        scaling_(s),
        gamma_(s.parameter("weight", 1)),
        beta_(s.parameter("bias", 0)),
        state_(ChannelNormState::create(norm_, s.channels, s.state_dtype(), s.device)) {}

  std::vector<Parameter*> parameters() override { return {&gamma_, &beta_}; }
  NamedTensors state() const override { return state_.named(); }
  std::optional<ChannelAffine> affine() const override {
    if (scaling_.groups) return std::nullopt;
    return channel_affine(state_, gamma_.value, beta_.value, norm_);
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

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const Var in = scaling_(x);
    const Var y =
        channel_norm(in, on_tape(gamma_, x), on_tape(beta_, x), context.mask, state_, norm_, context.training);
    if (info().name == "rbn" && context.training && context.penalties)
      context.penalties->push_back(
          rbn_penalty(x, context.mask, state_, options().number("mean_weight"), options().number("variance_weight")));
    return y;
  }

  ChannelNormOptions norm_;
  GroupScaling scaling_;
  Parameter gamma_, beta_;
  ChannelNormState state_;
};

// pn and pn_star as released.
class PowerNormalizer final : public Normalizer {
 public:
  explicit PowerNormalizer(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        norm_{.warmup = s.options.integer("warmup"),
              .alpha_forward = s.options.number("alpha"),
              .alpha_backward = s.options.number("alpha"),
              .eps = s.options.number("eps")},
        scaling_(s),
        gamma_(s.parameter("weight", 1)),
        beta_(s.parameter("bias", 0)),
        state_(PowerNormState::create(s.channels, s.state_dtype(), s.device)) {}

  std::vector<Parameter*> parameters() override { return {&gamma_, &beta_}; }
  NamedTensors state() const override { return state_.named(); }
  std::optional<ChannelAffine> affine() const override {
    if (scaling_.groups) return std::nullopt;
    return power_norm_affine(state_, gamma_.value, beta_.value, norm_);
  }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const Var in = scaling_(x);
    return power_norm(in, on_tape(gamma_, x), on_tape(beta_, x), context.mask, state_, norm_, context.training);
  }

  PowerNormOptions norm_;
  GroupScaling scaling_;
  Parameter gamma_, beta_;
  PowerNormState state_;
};

std::unique_ptr<Normalizer> make_power(const NormalizerSite& s) {
  return released(s) ? make<PowerNormalizer>(s) : make<ChannelNormalizer>(s);
}

NormalizerOption mode_option() {
  return {.name = "mode",
          .kind = Kind::choice,
          .default_value = "paper",
          .help = "as the paper says, or, reference, as the authors' released code computes",
          .choices = {"paper", "reference"}};
}
NormalizerOption window_option(const char* default_value) {
  return {"window", Kind::integer, default_value, "iterations in the windows of statistics", 1, 1e6};
}
NormalizerOption warmup_option(const char* default_value) {
  return {"warmup", Kind::integer, default_value, "averages are used from this iteration on; the first is 1", 0};
}
NormalizerOption flag_option(const char* name, const char* default_value, const char* help,
                             const char* reference = "") {
  return {.name = name,
          .kind = Kind::boolean,
          .default_value = default_value,
          .help = help,
          .default_in_reference = reference};
}
NormalizerOption choice_option(const char* name, std::vector<std::string> choices, const char* default_value,
                               const char* help, const char* reference = "") {
  return {.name = name,
          .kind = Kind::choice,
          .default_value = default_value,
          .help = help,
          .choices = std::move(choices),
          .default_in_reference = reference};
}

std::vector<NormalizerOption> un_options() {
  NormalizerOption window_backward = window_option("=window"), alpha_backward = alpha_option("=alpha");
  window_backward.name = "window_backward";
  window_backward.help = "the window of gradient statistics";
  alpha_backward.name = "alpha_backward";
  alpha_backward.help = "weight of the old value in the average of gradient statistics";
  return {mode_option(),
          window_option("4"),
          window_backward,
          warmup_option("4000"),
          alpha_option("0.9"),
          alpha_backward,
          eps_option("1e-5"),
          flag_option("filtration", "0", "skip iterations with outliers"),
          choice_option("granularity", {"channel", "layer_any", "layer_sum", "pooled"}, "layer_sum",
                        "which windows decide which channels skip an iteration with outliers", "pooled"),
          {"ddof", Kind::integer, "1", "1: unbiased variance in the outlier threshold", 0, 1},
          flag_option("flag_low", "1", "falls of the statistic are outliers too"),
          flag_option("hold_on_skip", "0", "skipped iterations stay out of the running variance"),
          flag_option("hold_non_finite", "1", "channels with NaN or infinity use their running estimates", "0"),
          choice_option("psi_after_skip", {"ema", "literal", "freeze"}, "ema", "what a skip leaves in psi"),
          choice_option("mask", {"valid", "all"}, "valid",
                        "statistics over real tokens, or over padding too, as in the released model"),
          choice_option("rescale", {"none", "backward", "both"}, "none",
                        "where the factor r of the released code enters", "backward"),
          choice_option("forward_average", {"none", "arithmetic", "geometric", "exponential"}, "geometric",
                        "what makes the variance from the window"),
          choice_option("backward_average", {"none", "arithmetic", "exponential", "arithmetic_exponential"},
                        "arithmetic_exponential", "what makes psi from gradient statistics")};
}

NormalizerKind kind(const char* name, const char* summary, std::vector<NormalizerOption> options) {
  return {{name, Inference::affine, summary, std::move(options)}, make<ChannelNormalizer>};
}

}  // namespace

std::vector<NormalizerKind> channel_normalizers() {
  const NormalizerOption groups{"groups", Kind::integer, "1", "groups of channels that share a scale; heads", 1};
  return {
      kind("un", "Unified Normalization: averages of the last statistics, outliers skipped", un_options()),
      kind("bn", "batch normalization over real tokens", {alpha_option("0.9"), eps_option("1e-5")}),
      kind("qmbn", "batch normalization by the mean square: UN without averages",
           {alpha_option("0.9"), eps_option("1e-5")}),
      kind("rbn", "batch normalization whose batch statistics are pulled to the running ones",
           {alpha_option("0.95"),
            eps_option("1e-5"),
            {"mean_weight", Kind::number, "0.1", "of the distance between the means in the loss", 0},
            {"variance_weight", Kind::number, "0.01", "of the distance between the variances in the loss", 0}}),
      kind("mabn", "Moving Average Batch Normalization",
           {mode_option(), window_option("4"), warmup_option("100"), alpha_option("0.98"), eps_option("1e-5")}),
      {{"pn_star",
        Inference::affine,
        "PowerNorm without its scaling of groups",
        {mode_option(), warmup_option("10000"), alpha_option("0.9"), eps_option("1e-5")}},
       make_power},
      {{"pn",
        Inference::online,
        "PowerNorm: groups of channels divided by their root mean square, then pn_star",
        {mode_option(), warmup_option("10000"), alpha_option("0.9"), eps_option("1e-5"), groups}},
       make_power},
  };
}

}  // namespace foldgrad
