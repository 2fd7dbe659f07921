// Normalizers with statistics per channel (ops/channel_norm/, ops/power_norm/).
#include "models/normalizers/channel_options.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/channel_norm_math.h"
#include "ops/power_norm/power_norm.h"
#include "ops/rbn_penalty/rbn_penalty.h"

namespace foldgrad {
namespace {

// The group scaling of `pn`. Other normalizers have 0 groups.
struct GroupScaling {
  std::int64_t groups;
  double eps;

  explicit GroupScaling(const NormalizerSite& s)
      : groups(s.options.all().count("groups") ? s.options.integer("groups") : 0), eps(s.options.number("eps")) {
    FOLDGRAD_CHECK(groups == 0 || s.channels % groups == 0, "pn: groups must divide the number of channels, {}, got {}",
                   s.channels, groups);
  }
  Var operator()(const Var& x) const { return groups ? group_rms(x, groups, eps) : x; }
  InferenceForm before(AffineMap map) const {
    if (groups == 0) return {.map = std::move(map)};
    return {.map = std::move(map), .instead = InferenceForm::Groups{groups, /*centered=*/false, eps}};
  }
};

class ChannelNormalizer : public WithGainAndBias {
 public:
  // Only normalizers that have an option `mode` pass `code`.
  ChannelNormalizer(const NormalizerSite& s, Published paper, Published code = nullptr)
      : WithGainAndBias(s),
        norm_(channel_options(s, paper, code)),
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
  std::shared_ptr<ChannelRecord> record_;  // the record that the next pass fills
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

// pn and pn_star as the authors released them.
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
  return is_released(s) ? make<PowerNormalizer>(s) : make<ChannelNormalizer, ChannelNormOptions::pn_star>(s);
}

}  // namespace

std::vector<NormalizerKind> channel_normalizers() {
  return {
      {{.name = "un",
        .inference = Inference::affine,
        .summary = "Unified Normalization: averages recent statistics and skips outliers",
        .options = un_options(),
        .outlier_test = true,
        .warmup = before_averages},
       make<ChannelNormalizer, ChannelNormOptions::un, ChannelNormOptions::un_released>},
      {{"bn",
        Inference::affine,
        "batch normalization over all non-padding tokens",
        {alpha_option("0.9"), eps_option("1e-5")}},
       make<ChannelNormalizer, ChannelNormOptions::bn>},
      {{"qmbn",
        Inference::affine,
        "batch normalization with the mean square instead of the mean and the variance (UN without averages)",
        {alpha_option("0.9"), eps_option("1e-5")}},
       make<ChannelNormalizer, ChannelNormOptions::qmbn>},
      {{"rbn",
        Inference::affine,
        "batch normalization with a loss that pulls batch statistics toward running statistics",
        {alpha_option("0.95"), eps_option("1e-5"),
         number_option("mean_weight", "0.1", "weight of the distance between means in the loss", at_least(0)),
         number_option("variance_weight", "0.01", "weight of the distance between variances in the loss",
                       at_least(0))}},
       make<RegularizedNormalizer>},
      {{.name = "mabn",
        .inference = Inference::affine,
        .summary = "Moving Average Batch Normalization",
        .options = {mode_option(), window_option("4"), warmup_option("100"), alpha_option("0.98"), eps_option("1e-5")},
        .warmup = before_averages},
       make<ChannelNormalizer, ChannelNormOptions::mabn, ChannelNormOptions::mabn_released>},
      {{.name = "pn_star",
        .inference = Inference::affine,
        .summary = "PowerNorm without group scaling",
        .options = {mode_option(), warmup_option("10000"), alpha_option("0.9"), eps_option("1e-5")},
        .warmup = before_averages},
       make_power},
      {{.name = "pn",
        .inference = Inference::online,
        .summary = "PowerNorm: divides groups of channels by their root mean square, then applies pn_star",
        .options = {mode_option(), warmup_option("10000"), alpha_option("0.9"), eps_option("1e-5"),
                    integer_option(
                        "groups", "1",
                        "number of channel groups, each with its own scale; the released code uses the number of heads",
                        at_least(1))},
        .warmup = before_averages},
       make_power},
  };
}

}  // namespace foldgrad
