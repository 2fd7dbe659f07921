// Normalizers with statistics of each token, or of each sample.
#include <cmath>

#include "models/normalizers/kinds.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/cast/cast.h"
#include "ops/center_norm/center_norm.h"
#include "ops/group_norm/group_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/scale_norm/scale_norm.h"

namespace foldgrad {
namespace {

using Kind = NormalizerOption::Kind;

// Gain and bias per channel.
class WithGainAndBias : public Normalizer {
 public:
  explicit WithGainAndBias(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        gamma_(s.parameter("weight", 1)),
        beta_(s.parameter("bias", 0)) {}

  std::vector<Parameter*> parameters() override { return {&gamma_, &beta_}; }

 protected:
  Parameter gamma_, beta_;
};

class LayerNormalizer final : public WithGainAndBias {
 public:
  explicit LayerNormalizer(const NormalizerSite& s) : WithGainAndBias(s), eps_(s.options.number("eps")) {}

 private:
  Var forward(const Var& x, const NormContext&) override {
    return layer_norm(x, on_tape(gamma_, x), on_tape(beta_, x), eps_);
  }

  double eps_;
};

// Wang et al., "DeepNet: Scaling Transformers to 1,000 Layers", 2022: the constants of table 2.
class DeepNormalizer final : public WithGainAndBias {
 public:
  explicit DeepNormalizer(const NormalizerSite& s) : WithGainAndBias(s), eps_(s.options.number("eps")) {
    const auto N = double(s.options.integer("encoder_layers")), M = double(s.options.integer("decoder_layers"));
    const bool in_decoder = s.options.text("stack") == "decoder";
    const double layers = in_decoder ? M : N;
    FOLDGRAD_CHECK(layers > 0, "deepnorm: {}_layers must be at least 1 with stack = {}, got 0", s.options.text("stack"),
                   s.options.text("stack"));
    if (N > 0 && M > 0) {
      const double both = std::pow(N * N * N * N * M, 0.0625);
      residual_ = in_decoder ? std::pow(3 * M, 0.25) : 0.81 * both;
      gain_ = in_decoder ? std::pow(12 * M, -0.25) : 0.87 / both;
    } else {
      residual_ = std::pow(2 * layers, 0.25);
      gain_ = std::pow(8 * layers, -0.25);
    }
  }

  double residual_scale() const override { return residual_; }
  double initial_gain() const override { return gain_; }

 private:
  Var forward(const Var& x, const NormContext&) override {
    return layer_norm(x, on_tape(gamma_, x), on_tape(beta_, x), eps_);
  }

  double eps_, residual_, gain_;
};

class RmsNormalizer final : public WithGainAndBias {
 public:
  explicit RmsNormalizer(const NormalizerSite& s)
      : WithGainAndBias(s),
        norm_{.eps = s.options.number("eps"),
              .eps_outside = s.options.text("eps_place") == "outside",
              .channels = std::int64_t(s.options.number("partial") * double(s.channels))},
        with_bias_(s.options.flag("bias")) {
    FOLDGRAD_CHECK(norm_.channels >= 1, "rmsnorm: partial must leave at least one of {} channels, got {}", s.channels,
                   s.options.text("partial"));
  }

  std::vector<Parameter*> parameters() override {
    return with_bias_ ? WithGainAndBias::parameters() : std::vector<Parameter*>{&gamma_};
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const Var y = rms_norm(x, on_tape(gamma_, x), norm_);
    return with_bias_ ? add_bias(y, on_tape(beta_, x)) : y;
  }

  RmsNormOptions norm_;
  bool with_bias_;
};

class CenterNormalizer final : public WithGainAndBias {
 public:
  explicit CenterNormalizer(const NormalizerSite& s) : WithGainAndBias(s) {
    FOLDGRAD_CHECK(s.channels >= 2, "centernorm: needs at least 2 channels, got {}", s.channels);
  }

  std::optional<ChannelAffine> affine() const override {
    const auto host = [](const Parameter& p) { return p.value.to(Device::cpu).to(DType::f64).clone(); };
    const ChannelAffine form{host(gamma_), host(beta_)};
    for (std::int64_t c = 0; c < channels(); ++c)
      form.A.data<double>()[c] *= double(channels()) / double(channels() - 1);
    return form;
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    return center_norm(x, on_tape(gamma_, x), on_tape(beta_, x));
  }
};

class GroupNormalizer final : public WithGainAndBias {
 public:
  explicit GroupNormalizer(const NormalizerSite& s)
      : WithGainAndBias(s), eps_(s.options.number("eps")), groups_(s.channels), axes_(GroupAxes::sample) {
    if (s.info.name == "instancenorm") {
      trained_ = s.options.flag("affine");
      return;
    }
    groups_ = s.options.integer("groups");
    if (s.options.text("axes") == "token") axes_ = GroupAxes::token;
    FOLDGRAD_CHECK(s.channels % groups_ == 0, "groupnorm: groups must divide {} channels, got {}", s.channels, groups_);
  }

  std::vector<Parameter*> parameters() override {
    return trained_ ? WithGainAndBias::parameters() : std::vector<Parameter*>{};
  }
  bool mixes_tokens() const override { return axes_ == GroupAxes::sample; }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    const auto use = [&](Parameter& p) {
      return trained_ ? on_tape(p, x) : cast(x.tape().constant(p.value), x.dtype());
    };
    return group_norm(x, use(gamma_), use(beta_), groups_, axes_, context.mask, eps_);
  }

  double eps_;
  std::int64_t groups_;
  GroupAxes axes_;
  bool trained_ = true;
};

class ScaleNormalizer final : public Normalizer {
 public:
  explicit ScaleNormalizer(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        g_(s.parameter("scale", std::sqrt(double(s.channels)), 1)),
        eps_(s.options.number("eps")) {}

  std::vector<Parameter*> parameters() override { return {&g_}; }

 private:
  Var forward(const Var& x, const NormContext&) override { return scale_norm(x, on_tape(g_, x), eps_); }

  Parameter g_;
  double eps_;
};

class FixNormalizer final : public Normalizer {
 public:
  explicit FixNormalizer(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        length_(s.options.text("length") == "one" ? 1 : std::sqrt(double(s.channels))),
        eps_(s.options.number("eps")) {}

 private:
  Var forward(const Var& x, const NormContext&) override {
    const Var unit = unit_rows(x, eps_);
    return length_ == 1 ? unit : scale(unit, length_);
  }

  double length_, eps_;
};

NormalizerKind group_kind(const char* name, const char* summary, std::vector<NormalizerOption> options) {
  options.insert(options.begin(), eps_option("1e-5"));
  return {{name, Inference::online, summary, std::move(options)}, make<GroupNormalizer>};
}

}  // namespace

std::vector<NormalizerKind> row_normalizers() {
  const auto choice = [](const char* name, std::vector<std::string> choices, const char* help) {
    return NormalizerOption{
        .name = name, .kind = Kind::choice, .default_value = choices[0], .help = help, .choices = choices};
  };
  const auto flag = [](const char* name, const char* help) {
    return NormalizerOption{.name = name, .kind = Kind::boolean, .default_value = "0", .help = help};
  };
  const NormalizerOption encoder{"encoder_layers", Kind::integer, "6", "layers of the encoder, 0 for none", 0},
      decoder{"decoder_layers", Kind::integer, "6", "layers of the decoder, 0 for none", 0},
      groups{"groups", Kind::integer, "32", "groups of channels", 1},
      partial{"partial", Kind::number, "1", "share of the channels that the mean is over", 0, 1, true};
  return {
      {{"ln", Inference::online, "layer normalization", {eps_option("1e-5")}}, make<LayerNormalizer>},
      {{"deepnorm",
        Inference::online,
        "layer normalization of a scaled residual plus a branch, for post-norm",
        {eps_option("1e-5"), encoder, decoder, choice("stack", {"encoder", "decoder"}, "where the site is")}},
       make<DeepNormalizer>},
      {{"rmsnorm",
        Inference::online,
        "root mean square normalization",
        {eps_option("1e-6"), choice("eps_place", {"inside", "outside"}, "eps inside the root, or added to it"), partial,
         flag("bias", "with a bias per channel")}},
       make<RmsNormalizer>},
      {{"scalenorm", Inference::online, "tokens divided by their length, times one number", {eps_option("1e-5")}},
       make<ScaleNormalizer>},
      {{"fixnorm",
        Inference::online,
        "rows of fixed length, for embedding tables; free at inference there",
        {eps_option("1e-12"), choice("length", {"one", "sqrt_channels"}, "the length of a row")}},
       make<FixNormalizer>},
      {{"centernorm", Inference::linear, "layer normalization without the division", {}}, make<CenterNormalizer>},
      group_kind("groupnorm", "group normalization per sample or per token",
                 {groups, choice("axes", {"sample", "token"}, "statistics per sample, over its tokens, or per token")}),
      group_kind("instancenorm", "each channel of each sample over its tokens",
                 {flag("affine", "with gain and bias per channel")}),
  };
}

}  // namespace foldgrad
