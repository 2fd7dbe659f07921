// Elementwise normalizers, and `none`.
#include "models/normalizers/kinds.h"
#include "ops/affine/affine.h"
#include "ops/dyt/dyt.h"

namespace foldgrad {
namespace {

using Function = InferenceForm::Elementwise::Function;

class DytNormalizer final : public WithGainAndBias {
 public:
  DytNormalizer(const NormalizerSite& s, Function function)
      : WithGainAndBias(s, /*trains_gain=*/true, s.options.flag("bias")),
        function_(function),
        alpha_(s.parameter(
            "alpha", s.options.number(s.options.text("sublayer") == "attention" ? "attention_alpha" : "alpha"), 1)),
        shift_(s.parameter("shift", derf() ? s.options.number("shift") : 0, 1)) {}

  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all{&alpha_};
    if (derf()) all.push_back(&shift_);
    for (Parameter* p : WithGainAndBias::parameters()) all.push_back(p);
    return all;
  }
  std::optional<InferenceForm> inference() const override {
    return InferenceForm{.map = gain_and_bias(),
                         .instead = InferenceForm::Elementwise{function_, alpha_.value.item(), shift_.value.item()}};
  }

 private:
  bool derf() const { return function_ == Function::erf; }
  Var forward(const Var& x, const NormContext&) override {
    const Var alpha = on_tape(alpha_, x);
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    return derf() ? foldgrad::derf(x, alpha, on_tape(shift_, x), gamma, beta) : dyt(x, alpha, gamma, beta);
  }

  Function function_;
  Parameter alpha_, shift_;
};

class AffineNormalizer final : public WithGainAndBias {
 public:
  AffineNormalizer(const NormalizerSite& s, bool with_bias) : WithGainAndBias(s, /*trains_gain=*/true, with_bias) {}

  std::optional<InferenceForm> inference() const override { return InferenceForm{.map = gain_and_bias()}; }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const auto [gamma, beta] = gain_and_bias_on_tape(x);
    return foldgrad::affine(x, gamma, beta);
  }
};

class NoNormalizer final : public Normalizer {
 public:
  explicit NoNormalizer(const NormalizerSite& s) : Normalizer(s) {}

  std::optional<InferenceForm> inference() const override {
    return InferenceForm{.map = AffineMap::identity(channels())};
  }

 private:
  Var forward(const Var& x, const NormContext&) override { return x; }
};

}  // namespace

std::vector<NormalizerKind> stateless_normalizers() {
  const NormalizerOption slope = number_option("alpha", "0.5", "initial slope"),
                         shift = number_option("shift", "0", "initial shift");
  NormalizerOption attention =
                       number_option("attention_alpha", "=alpha", "initial slope at sites before or after attention"),
                   bias = flag_option("bias", "1", "add a learned bias per channel"),
                   sublayer = choice_option("sublayer", {"attention", "other"}, "other", "where the site is");
  attention.newer = bias.newer = sublayer.newer = true;
  sublayer.told_by_model = true;
  return {
      {{"dyt", Inference::elementwise, "Dynamic Tanh: gain * tanh(alpha x) + bias", {slope, attention, bias, sublayer}},
       make<DytNormalizer, Function::tanh>},
      {{"derf",
        Inference::elementwise,
        "gain * erf(alpha x + shift) + bias",
        {slope, shift, attention, bias, sublayer}},
       make<DytNormalizer, Function::erf>},
      {{"affine", Inference::affine, "gain and bias per channel (MobileBERT's NoNorm)", {}},
       make<AffineNormalizer, true>},
      {{"scale", Inference::affine, "a gain per channel", {}}, make<AffineNormalizer, false>},
      {{"none", Inference::affine, "x itself", {}}, make<NoNormalizer>},
  };
}

}  // namespace foldgrad
