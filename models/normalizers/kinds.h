// Base classes for files that define normalizers. Code that only uses normalizers includes normalizer.h.
//
// A program can add its own normalizer (docs/library.md):
//
//   class Mine final : public Normalizer { public: explicit Mine(const NormalizerSite& site); ... };
//   register_normalizer({{"mine", Inference::affine, "what it does", {eps_option("1e-5")}}, make<Mine>});
#pragma once
#include "models/normalizers/normalizer.h"
#include "ops/cast/cast.h"

namespace foldgrad {

// The arguments of make_normalizer after it has checked them.
struct NormalizerSite {
  const NormalizerInfo& info;
  const NormalizerOptions& options;
  const std::string& site;
  std::int64_t channels;
  DType dtype;
  Device device;

  // Makes the parameter SITE.NAME with `size` elements, by default one per channel, all equal to `value`.
  Parameter parameter(const std::string& name, double value, std::int64_t size = -1) const {
    return {site + "." + name, Tensor::full({size < 0 ? channels : size}, value, dtype, device)};
  }
  DType state_dtype() const { return dtype == DType::f64 ? DType::f64 : DType::f32; }
};

// A normalizer with a gain and a bias per channel. An untrained gain stays 1 and an untrained bias 0; neither is a
// parameter.
class WithGainAndBias : public Normalizer {
 public:
  explicit WithGainAndBias(const NormalizerSite& s, bool trains_gain = true, bool trains_bias = true)
      : Normalizer(s),
        gamma_(s.parameter("weight", 1)),
        beta_(s.parameter("bias", 0)),
        trains_gain_(trains_gain),
        trains_bias_(trains_bias) {}

  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all;
    if (trains_gain_) all.push_back(&gamma_);
    if (trains_bias_) all.push_back(&beta_);
    return all;
  }

 protected:
  AffineMap gain_and_bias() const { return AffineMap::of(gamma_.value, beta_.value); }
  std::pair<Var, Var> gain_and_bias_on_tape(const Var& x) {
    const auto use = [&x](Parameter& p, bool trained) {
      return trained ? on_tape(p, x) : cast(x.tape().constant(p.value), x.dtype());
    };
    const Var gamma = use(gamma_, trains_gain_);
    const Var beta = use(beta_, trains_bias_);
    return {gamma, beta};
  }

  Parameter gamma_, beta_;
  const bool trains_gain_, trains_bias_;
};

struct NormalizerKind {
  NormalizerInfo info;
  std::unique_ptr<Normalizer> (*make)(const NormalizerSite&);
};

// Makes a normalizer of type N. `more` are further arguments of N's constructor.
template <class N, auto... more>
std::unique_ptr<Normalizer> make(const NormalizerSite& site) {
  return std::make_unique<N>(site, more...);
}

// Adds `kind` to normalizers(), so that models, configurations, checks, folding and export treat it like a normalizer
// of the library. Invalidates vectors that normalizers() has returned, so call it at the start of the program, from one
// thread. Throws std::invalid_argument if the name is empty or taken.
void register_normalizer(NormalizerKind kind);

std::vector<NormalizerKind> channel_normalizers();    // un, bn, qmbn, mabn, pn, pn_star, rbn
std::vector<NormalizerKind> mixed_normalizers();      // repbn, prepbn
std::vector<NormalizerKind> row_normalizers();        // ln, rmsnorm, scalenorm, fixnorm, groupnorm, ...
std::vector<NormalizerKind> stateless_normalizers();  // dyt, derf, affine, none

// Return options that several normalizers share.
inline NormalizerOption eps_option(const char* default_value) {
  return number_option("eps", default_value, "value added to the variance or mean square before the square root",
                       {.low = 0, .high = 1, .low_excluded = true});
}
inline NormalizerOption alpha_option(const char* default_value) {
  return number_option("alpha", default_value, "weight of the old value in a running average", within(0, 1));
}

}  // namespace foldgrad
