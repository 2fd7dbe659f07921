// Functions of each element, and nothing.
#include "models/normalizers/kinds.h"
#include "ops/affine/affine.h"
#include "ops/cast/cast.h"
#include "ops/dyt/dyt.h"

namespace foldgrad {
namespace {

using Kind = NormalizerOption::Kind;

class DytNormalizer final : public Normalizer {
 public:
  explicit DytNormalizer(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        alpha_(s.parameter("alpha", s.options.number("alpha"), 1)),
        shift_(s.parameter("shift", s.info.name == "derf" ? s.options.number("shift") : 0, 1)),
        gamma_(s.parameter("weight", 1)),
        beta_(s.parameter("bias", 0)),
        derf_(s.info.name == "derf") {}

  std::vector<Parameter*> parameters() override {
    if (derf_) return {&alpha_, &shift_, &gamma_, &beta_};
    return {&alpha_, &gamma_, &beta_};
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const Var alpha = on_tape(alpha_, x), gamma = on_tape(gamma_, x), beta = on_tape(beta_, x);
    return derf_ ? derf(x, alpha, on_tape(shift_, x), gamma, beta) : dyt(x, alpha, gamma, beta);
  }

  Parameter alpha_, shift_, gamma_, beta_;
  bool derf_;
};

class AffineNormalizer final : public Normalizer {
 public:
  explicit AffineNormalizer(const NormalizerSite& s)
      : Normalizer(s.info, s.options, s.site, s.channels),
        gamma_(s.parameter("weight", 1)),
        beta_(s.parameter("bias", 0)),
        with_bias_(s.info.name == "affine") {}

  std::vector<Parameter*> parameters() override {
    return with_bias_ ? std::vector<Parameter*>{&gamma_, &beta_} : std::vector<Parameter*>{&gamma_};
  }
  std::optional<ChannelAffine> affine() const override {
    const auto host = [](const Parameter& p) { return p.value.to(Device::cpu).to(DType::f64).clone(); };
    return ChannelAffine{host(gamma_), host(beta_)};
  }

 private:
  Var forward(const Var& x, const NormContext&) override {
    const Var beta = with_bias_ ? on_tape(beta_, x) : cast(x.tape().constant(beta_.value), x.dtype());
    return foldgrad::affine(x, on_tape(gamma_, x), beta);
  }

  Parameter gamma_, beta_;
  bool with_bias_;  // otherwise beta is zero and no parameter
};

class NoNormalizer final : public Normalizer {
 public:
  explicit NoNormalizer(const NormalizerSite& s) : Normalizer(s.info, s.options, s.site, s.channels) {}

  std::optional<ChannelAffine> affine() const override {
    return ChannelAffine{Tensor::full({channels()}, 1, DType::f64), Tensor::zeros({channels()}, DType::f64)};
  }

 private:
  Var forward(const Var& x, const NormContext&) override { return x; }
};

}  // namespace

std::vector<NormalizerKind> stateless_normalizers() {
  const NormalizerOption slope{"alpha", Kind::number, "0.5", "initial slope"},
      shift{"shift", Kind::number, "0", "initial shift"};
  return {
      {{"dyt", Inference::elementwise, "Dynamic Tanh: gain * tanh(alpha x) + bias", {slope}}, make<DytNormalizer>},
      {{"derf", Inference::elementwise, "gain * erf(alpha x + shift) + bias", {slope, shift}}, make<DytNormalizer>},
      {{"affine", Inference::affine, "gain and bias per channel: MobileBERT's NoNorm", {}}, make<AffineNormalizer>},
      {{"scale", Inference::affine, "a gain per channel", {}}, make<AffineNormalizer>},
      {{"none", Inference::affine, "x itself", {}}, make<NoNormalizer>},
  };
}

}  // namespace foldgrad
