// RepBN and PRepBN (Guo et al., "SLAB", 2024): RepBN is batch normalization plus a scaled copy of x, and PRepBN mixes
// RepBN with layer normalization.
#include <algorithm>

#include "models/normalizers/kinds.h"
#include "ops/affine/affine.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/layer_norm/layer_norm.h"

namespace foldgrad {
namespace {

// y = BN(x) + eta x. The names of the parameters begin with `prefix`.
class RepBn : public Normalizer {
 public:
  explicit RepBn(const NormalizerSite& s, const std::string& prefix = "")
      : Normalizer(s),
        norm_(ChannelNormOptions::bn()),
        gamma_(s.parameter(prefix + "weight", 1)),
        beta_(s.parameter(prefix + "bias", 0)),
        eta_(s.parameter(prefix + "eta", s.options.number("eta"), 1)),
        state_(ChannelNormState::create(norm_, s.channels, s.state_dtype(), s.device)) {
    norm_.alpha_forward = norm_.alpha_backward = s.options.number("alpha");
    norm_.eps = s.options.number("eps");
  }

  std::vector<Parameter*> parameters() override { return {&gamma_, &beta_, &eta_}; }
  NamedTensors state() const override { return state_.named(); }
  std::optional<InferenceForm> inference() const override {
    AffineMap map = channel_affine(state_, gamma_.value, beta_.value, norm_);
    const double eta = eta_.value.item();
    for (double& a : map.A) a += eta;
    return InferenceForm{.map = std::move(map)};
  }

 protected:
  Var forward(const Var& x, const NormContext& context) override {
    const Var gamma = on_tape(gamma_, x);
    const Var beta = on_tape(beta_, x);
    const Var normalized = channel_norm(x, gamma, beta, state_, norm_, context.channel_pass());
    const Var scaled = scale_by(x, on_tape(eta_, x));
    return add(normalized, scaled);
  }

 private:
  ChannelNormOptions norm_;
  Parameter gamma_, beta_, eta_;
  ChannelNormState state_;
};

// Gives zero gradients to parameters that this step does not use, since the optimizer rejects missing gradients.
void rest(const std::vector<Parameter*>& parameters) {
  for (Parameter* p : parameters) {
    if (p->has_grad) continue;  // from an earlier batch of the same step
    p->grad = Tensor::zeros(p->value.shape(), p->value.dtype(), p->value.device());
    p->has_grad = true;
  }
}

// y = lam LN(x) + (1 - lam) RepBN(x) in training, while lam falls from `start` to 0. At inference, y = RepBN(x).
class PRepBn final : public RepBn {
 public:
  explicit PRepBn(const NormalizerSite& s)
      : RepBn(s, "bn."),
        ln_gamma_(s.parameter("ln.weight", 1)),
        ln_beta_(s.parameter("ln.bias", 0)),
        ln_eps_(s.options.number("ln_eps")),
        start_(s.options.number("start")),
        warmup_(s.options.integer("warmup")),
        total_(s.options.integer("total")),
        steps_(Tensor::zeros({}, DType::i64)) {}

  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all = RepBn::parameters();
    all.insert(all.end(), {&ln_gamma_, &ln_beta_});
    return all;
  }
  NamedTensors state() const override {
    auto all = RepBn::state();
    all["steps"] = steps_;
    return all;
  }

 private:
  Var forward(const Var& x, const NormContext& context) override {
    if (!context.training) return RepBn::forward(x, context);
    const std::int64_t step = steps_.data<std::int64_t>()[0]++, past = std::max(step - warmup_, std::int64_t(0)),
                       left = std::max(total_ - past, std::int64_t(0));
    if (left == 0) {
      rest({&ln_gamma_, &ln_beta_});
      return RepBn::forward(x, context);
    }
    const Var gamma = on_tape(ln_gamma_, x);
    const Var beta = on_tape(ln_beta_, x);
    const Var ln = layer_norm(x, gamma, beta, ln_eps_);
    if (step < warmup_) {
      rest(RepBn::parameters());
      return ln;
    }
    const double lam = start_ * double(left) / double(total_);
    const Var from_ln = scale(ln, lam);
    const Var from_rep = scale(RepBn::forward(x, context), 1 - lam);
    return add(from_ln, from_rep);
  }

  Parameter ln_gamma_, ln_beta_;
  double ln_eps_, start_;
  std::int64_t warmup_, total_;
  Tensor steps_;  // i64 [], on the host, since it decides which operations run
};

// Returns the number of iterations with a layer normalization.
NormalizerWarmup before_rep_bn(const NormalizerOptions& o) {
  constexpr const char* kMeanwhile = "computes a layer normalization that inference leaves out";
  const std::int64_t warmup = o.integer("warmup");
  if (o.number("start") == 0) return {warmup, {"warmup"}, kMeanwhile};
  std::int64_t iterations;
  if (__builtin_add_overflow(warmup, o.integer("total"), &iterations)) iterations = INT64_MAX;
  if (warmup == 0) return {iterations, {"total"}, kMeanwhile};
  return {iterations, {"warmup", "total"}, kMeanwhile};
}

}  // namespace

std::vector<NormalizerKind> mixed_normalizers() {
  const NormalizerOption eta = number_option("eta", "1", "initial factor of x in the sum");
  const NormalizerOption ln_eps = renamed(eps_option("1e-5"), "ln_eps", "eps for the layer normalization");
  return {
      {{"repbn",
        Inference::affine,
        "batch normalization plus a learned multiple of x",
        {alpha_option("0.9"), eps_option("1e-5"), eta}},
       make<RepBn>},
      {{.name = "prepbn",
        .inference = Inference::affine,
        .summary = "layer normalization that turns into RepBN during training",
        .options = {alpha_option("0.9"), eps_option("1e-5"), eta, ln_eps,
                    number_option("start", "1", "initial weight of the layer normalization", within(0, 1)),
                    integer_option("total", "300000",
                                   "number of training steps in which the layer normalization's weight falls to 0",
                                   at_least(1)),
                    integer_option(
                        "warmup", "0",
                        "number of training steps with only the layer normalization, before its weight starts to fall",
                        at_least(0))},
        .warmup = before_rep_bn},
       make<PRepBn>},
  };
}

}  // namespace foldgrad
