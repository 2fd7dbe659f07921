// Normalizers with statistics per token or per sample.
#include <cmath>

#include "models/normalizers/kinds.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/center_norm/center_norm.h"
#include "ops/group_norm/group_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_norm/scale_norm.h"

namespace foldgrad {
namespace {

class LayerNormalizer final : public WithGainAndBias {
 public:
  explicit LayerNormalizer(const NormalizerSite& s) : WithGainAndBias(s), eps_(s.options.number("eps")) {}

  std::optional<InferenceForm> inference() const override {
    return InferenceForm{.map = gain_and_bias(), .instead = InferenceForm::Groups{1, /*centered=*/true, eps_}};
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    return layer_norm(x, gamma, beta, eps_);
  }

  double eps_;
};

// From table 2 of Wang et al., "DeepNet: Scaling Transformers to 1,000 Layers", 2022.
ResidualConstants deepnorm_constants(const NormalizerOptions& options) {
  const auto N = double(options.integer("encoder_layers")), M = double(options.integer("decoder_layers"));
  const std::string& stack = options.text("stack");
  const bool in_decoder = stack == "decoder";
  const double layers = in_decoder ? M : N;
  FOLDGRAD_CHECK(layers > 0, "deepnorm: {}_layers must be at least 1 with stack = {}, got 0", stack, stack);
  if (N == 0 || M == 0) return {std::pow(2 * layers, 0.25), std::pow(8 * layers, -0.25)};
  if (in_decoder) return {std::pow(3 * M, 0.25), std::pow(12 * M, -0.25)};
  const double both = std::pow(N * N * N * N * M, 0.0625);
  return {0.81 * both, 0.87 / both};
}

std::unique_ptr<Normalizer> make_deepnorm(const NormalizerSite& s) {
  (void)deepnorm_constants(s.options);  // checks the options
  return make<LayerNormalizer>(s);
}

class RmsNormalizer final : public WithGainAndBias {
 public:
  explicit RmsNormalizer(const NormalizerSite& s)
      : WithGainAndBias(s, /*trains_gain=*/true, s.options.flag("bias")),
        norm_{.eps = s.options.number("eps"),
              .eps_outside = s.options.text("eps_place") == "outside",
              .channels = std::int64_t(s.options.number("partial") * double(s.channels))} {
    FOLDGRAD_CHECK(norm_.channels >= 1, "rmsnorm: partial must leave at least one of {} channels, got {}", s.channels,
                   s.options.text("partial"));
  }

  std::optional<InferenceForm> inference() const override {
    if (norm_.eps_outside || norm_.channels < channels())
      return InferenceForm{.map = gain_and_bias(), .instead = norm_};
    return InferenceForm{.map = gain_and_bias(), .instead = InferenceForm::Groups{1, /*centered=*/false, norm_.eps}};
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const Var y = rms_norm(x, on_tape(gamma_, x), norm_);
    return trains_bias_ ? add_bias(y, on_tape(beta_, x)) : y;
  }

  RmsNormOptions norm_;
};

class CenterNormalizer final : public WithGainAndBias {
 public:
  explicit CenterNormalizer(const NormalizerSite& s) : WithGainAndBias(s) {
    FOLDGRAD_CHECK(s.channels >= 2, "centernorm: needs at least 2 channels, got {}", s.channels);
  }

  std::optional<InferenceForm> inference() const override {
    AffineMap map = gain_and_bias();
    for (double& a : map.A) a *= double(channels()) / double(channels() - 1);
    map.centered = true;
    return InferenceForm{.map = std::move(map)};
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    return center_norm(x, gamma, beta);
  }
};

class GroupNormalizer final : public WithGainAndBias {
 public:
  // Each channel is a group if `by_channel` (instancenorm); otherwise the options give the number of groups.
  GroupNormalizer(const NormalizerSite& s, bool by_channel)
      : GroupNormalizer(s, by_channel, /*trained=*/!by_channel || s.options.flag("affine")) {}
  GroupNormalizer(const NormalizerSite& s, bool by_channel, bool trained)
      : WithGainAndBias(s, trained, trained),
        eps_(s.options.number("eps")),
        groups_(by_channel ? s.channels : s.options.integer("groups")),
        over_sample_(by_channel || s.options.text("axes") == "sample") {
    FOLDGRAD_CHECK(s.channels % groups_ == 0, "groupnorm: groups must divide the number of channels, {}, got {}",
                   s.channels, groups_);
  }

  std::optional<InferenceForm> inference() const override {
    return InferenceForm{.map = gain_and_bias(), .instead = InferenceForm::Groups{groups_, /*centered=*/true, eps_}};
  }
  bool mixes_tokens() const override { return over_sample_; }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    if (!over_sample_) return group_norm(x, gamma, beta, groups_, nullptr, eps_);
    const std::int64_t first = x.shape()[0], rows = x.shape().without(-1).elements();
    const Segments samples =
        context.samples ? *context.samples : Segments::equal(first, rows / std::max<std::int64_t>(first, 1));
    const Segments there = samples.to(x.device());
    return group_norm(x, gamma, beta, groups_, &there, eps_);
  }

  double eps_;
  std::int64_t groups_;
  bool over_sample_;  // statistics are per sample if true, otherwise per token
};

// Returns the form length * x / max(|x|, eps).
InferenceForm length_form(std::int64_t channels, double length, double eps) {
  AffineMap map = AffineMap::identity(channels);
  map.A.assign(map.A.size(), length);
  return {.map = std::move(map), .instead = InferenceForm::UnitLength{eps}};
}

class ScaleNormalizer final : public Normalizer {
 public:
  explicit ScaleNormalizer(const NormalizerSite& s)
      : Normalizer(s), g_(s.parameter("scale", std::sqrt(double(s.channels)), 1)), eps_(s.options.number("eps")) {}

  std::vector<Parameter*> parameters() override { return {&g_}; }
  std::optional<InferenceForm> inference() const override { return length_form(channels(), g_.value.item(), eps_); }

 private:
  Var forward(const Var& x, const NormContext&) override { return scale_norm(x, on_tape(g_, x), eps_); }

  Parameter g_;
  double eps_;
};

class FixNormalizer final : public Normalizer {
 public:
  explicit FixNormalizer(const NormalizerSite& s)
      : Normalizer(s),
        length_(s.options.text("length") == "one" ? 1 : std::sqrt(double(s.channels))),
        eps_(s.options.number("eps")) {}

  std::optional<InferenceForm> inference() const override { return length_form(channels(), length_, eps_); }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const Var unit = unit_rows(x, eps_);
    return length_ == 1 ? unit : scale(unit, length_);
  }

  double length_, eps_;
};

}  // namespace

std::vector<NormalizerKind> row_normalizers() {
  NormalizerOption encoder = integer_option("encoder_layers", "6", "number of encoder layers; 0 if there is no encoder",
                                            at_least(0)),
                   decoder = integer_option("decoder_layers", "6", "number of decoder layers; 0 if there is no decoder",
                                            at_least(0)),
                   stack = choice_option("stack", {"encoder", "decoder"}, "encoder", "where the site is");
  encoder.told_by_model = decoder.told_by_model = stack.told_by_model = true;
  return {
      {{"ln", Inference::online, "layer normalization", {eps_option("1e-5")}}, make<LayerNormalizer>},
      {{.name = "deepnorm",
        .inference = Inference::online,
        .summary = "layer normalization of a scaled residual plus a branch; for post-norm only",
        .options = {eps_option("1e-5"), encoder, decoder, stack},
        .post_norm_only = true,
        .residual = deepnorm_constants},
       make_deepnorm},
      {{"rmsnorm",
        Inference::online,
        "root mean square normalization",
        {eps_option("1e-6"),
         choice_option("eps_place", {"inside", "outside"}, "inside", "add eps inside the square root or to its result"),
         number_option("partial", "1", "fraction of the channels used to compute the mean square",
                       {.low = 0, .high = 1, .low_excluded = true}),
         flag_option("bias", "0", "add a learned bias per channel")}},
       make<RmsNormalizer>},
      {{"scalenorm",
        Inference::online,
        "divides tokens by their norm and multiplies them by one learned scalar",
        {eps_option("1e-5")}},
       make<ScaleNormalizer>},
      {{"fixnorm",
        Inference::online,
        "scales each row to a fixed norm; intended for embedding tables, where scaling costs nothing at inference",
        {eps_option("1e-12"), choice_option("length", {"one", "sqrt_channels"}, "one", "norm of a row after scaling")}},
       make<FixNormalizer>},
      {{"centernorm", Inference::linear, "layer normalization without division by the standard deviation", {}},
       make<CenterNormalizer>},
      {{"groupnorm",
        Inference::online,
        "group normalization of each sample or each token",
        {eps_option("1e-5"), integer_option("groups", "32", "groups of channels", at_least(1)),
         choice_option("axes", {"sample", "token"}, "sample",
                       "compute statistics for each sample over all its tokens, or for each token")}},
       make<GroupNormalizer, /*by_channel=*/false>},
      {{"instancenorm",
        Inference::online,
        "normalizes each channel of each sample over the sample's tokens",
        {eps_option("1e-5"), flag_option("affine", "0", "add a learned gain and bias per channel")}},
       make<GroupNormalizer, /*by_channel=*/true>},
  };
}

}  // namespace foldgrad
