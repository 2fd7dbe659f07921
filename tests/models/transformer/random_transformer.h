// Random Transformers for property tests of folding: random sizes, kinds, weights and sentences, and gains over six
// orders of magnitude.
#pragma once
#include <rapidcheck.h>

#include <algorithm>
#include <random>

#include "models/fold/model.h"
#include "tests/models/transformer/tiny_translation.h"

namespace foldgrad::testing {

inline TransformerConfig random_config(const std::string& normalizer, bool pre_norm) {
  TransformerConfig config = tiny_config(normalizer, pre_norm);
  config.heads = *rc::gen::element<std::int64_t>(1, 2, 4).as("heads");
  config.width = config.heads * *rc::gen::element<std::int64_t>(4, 6).as("width per head");
  config.ffn_width = *rc::gen::inRange<std::int64_t>(1, 20).as("ffn_width");
  config.encoder_layers = *rc::gen::inRange<std::int64_t>(1, 4).as("encoder_layers");
  config.decoder_layers = *rc::gen::inRange<std::int64_t>(1, 4).as("decoder_layers");
  config.activation = *rc::gen::element<std::string>("relu", "gelu").as("activation");
  config.share_embeddings = *rc::gen::element<std::string>("all", "decoder", "inputs", "none").as("share_embeddings");
  config.output_bias = *rc::gen::element(false, true).as("output_bias");
  return config;
}

// Returns a batch of one to five sentences per side, each of one to seven tokens.
inline TranslationBatch random_batch() {
  const auto sentences = *rc::gen::inRange<std::size_t>(1, 6).as("sentences");
  const auto side = [&] {
    const auto tokens = rc::gen::inRange<std::int64_t>(4, 11);
    const auto sentence = rc::gen::nonEmpty(rc::gen::resize(7, rc::gen::container<Ids>(tokens)));
    return Sentences::of(*rc::gen::container<std::vector<Ids>>(sentences, sentence).as("a side"));
  };
  const Sentences source = side(), input = side();
  return {source, input, input.ids};
}

// Sets |A| of each channel c to about 10^decades[c], and multiplies the bias by 10^levels[c]. If there is a running
// variance, changes the variance as far as eps allows, and the gain by the remaining factor. Otherwise changes only the
// gain.
inline void set_gains(Normalizer& norm, const std::vector<double>& decades, const std::vector<double>& levels) {
  Tensor variance, gain, bias;
  for (auto&& [name, tensor] : norm.state()) {
    if (name == "run_var" || name == "phi") variance = tensor;
    if (name == "run_mean") tensor.copy_from(randn(tensor.shape(), 1).to(tensor.dtype()));
  }
  for (Parameter* p : norm.parameters()) {
    if (p->name == norm.site() + ".weight" || p->name == norm.site() + ".bn.weight") gain = p->value;
    if (p->name == norm.site() + ".bias" || p->name == norm.site() + ".bn.bias") bias = p->value;
    if (p->name.ends_with(".eta")) p->value.copy_from(Tensor::full({1}, 1e-3, p->value.dtype()));  // eta is added to A
  }
  if (!gain.defined()) return;
  const auto change = [](Tensor& t, const auto& to) {
    const Tensor exact = t.to(DType::f64).clone();
    for (std::int64_t c = 0; c < t.size(); ++c) exact.data<double>()[c] = to(std::size_t(c), exact.data<double>()[c]);
    t.copy_from(exact.to(t.dtype()));
  };
  const auto target = [&](std::size_t c) { return std::pow(10, decades[c]); };
  const auto beyond_eps = [&](std::size_t c) { return std::max(target(c) / 100, 1.0); };
  if (variance.defined()) {
    const std::vector<double> g = gain.to(DType::f64).values<double>();
    change(variance,
           [&](std::size_t c, double) { return std::max(std::pow(g[c] * beyond_eps(c) / target(c), 2) - 1e-5, 1e-7); });
  }
  change(gain, [&](std::size_t c, double g) { return g * (variance.defined() ? beyond_eps(c) : target(c)); });
  if (bias.defined()) change(bias, [&](std::size_t c, double b) { return b * std::pow(10, levels[c]); });
}

// Draws gains from 1e-3 to 1e3. The level of a channel is log10 of the order of magnitude of its values after the site.
// To keep values in the range of f32, we divide each weight column that reads a channel by 10^level. With pre-norm,
// 10^level is the gain. With post-norm, the stream passes one gain after another, so we draw levels, and each gain
// leads from one level to the next.
inline void randomize_gains(Transformer& model, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> gain(-3, 3), level(-1.5, 1.5);
  auto sites = by_site(fold(model));
  std::map<std::string, Parameter*> parameters;
  for (Parameter* p : model.parameters()) parameters[p->name] = p;
  std::vector<double> levels;
  for (Normalizer* norm : model.normalizers()) {
    const auto C = std::size_t(norm->channels());
    const bool first = norm->site() == "encoder.layers.0.self_attn_layer_norm" ||
                       norm->site() == "decoder.layers.0.self_attn_layer_norm";
    if (first || model.config().pre_norm || !norm->info().offline()) levels.assign(C, 0);
    std::vector<double> decades(C);
    for (std::size_t c = 0; c < C; ++c) {
      const double next = model.config().pre_norm ? gain(random) : level(random);
      decades[c] = next - levels[c], levels[c] = next;
    }
    set_gains(*norm, decades, levels);
    for (const std::string& name : sites[norm->site()].into)
      if (const auto found = parameters.find(name);
          found != parameters.end() && found->second->value.shape().rank() == 2)
        found->second->value.copy_from([&] {
          const Tensor w = found->second->value.to(DType::f64).clone();
          for (std::int64_t i = 0; i < w.size(); ++i) w.data<double>()[i] /= std::pow(10, levels[std::size_t(i) % C]);
          return w.to(found->second->value.dtype());
        }());
  }
}

inline std::unique_ptr<Transformer> random_transformer(const TransformerConfig& config, DType dtype) {
  auto model = std::make_unique<Transformer>(config, 1, dtype);
  const auto seed = *rc::gen::inRange<unsigned>(0, 1000000).as("seed of weights");
  randomize(*model, seed, 0.15);
  randomize_gains(*model, seed);
  return model;
}

// Estimates by which factor the relative change of the logits exceeds that of the numbers from which they are computed.
// In f64, multiplies each parameter, each statistic and each element of each operation's result by 1 + d or 1 - d at
// random. Divides the largest change of a logit by the largest logit and by d. Returns the maximum of three draws.
// Changing only the parameters would not be enough, since rounding errors differ from row to row. Equal tokens would
// change alike, so the differences between their attention scores, which may be much smaller than the scores, would
// keep their relative accuracy.
inline double condition_number(Transformer& model, const TranslationBatch& batch, double d) {
  std::mt19937_64 random(1);
  const auto change = [&](const Tensor& t) {
    for (std::int64_t i = 0; is_floating(t.dtype()) && i < t.size(); ++i)
      t.data<double>()[i] *= 1 + (random() % 2 ? d : -d);
  };
  Transformer exact(model.config(), 1, DType::f64);
  exact.copy_from(model);
  const Tensor want = inference_logits(exact, batch.named(), DType::f64);
  double greatest = 0;
  for (int draw = 0; draw < 3; ++draw) {
    Transformer changed(model.config(), 1, DType::f64);
    changed.copy_from(model);
    for (Parameter* p : changed.parameters()) change(p->value);
    for (const auto& [name, tensor] : changed.state()) change(tensor);
    Tape tape;
    tape.observe([&](const Node&, const Tensor& y) { change(y); });
    const Tensor logits = changed.forward(batch.named(), {.tape = tape, .dtype = DType::f64}).value();
    greatest = std::max(greatest, difference(logits, want).relative / d);
  }
  return greatest;
}

// Bounds the difference that rounding causes between a model and its folded form. Let u be half an epsilon, and n the
// number of terms in the longest sum. A computed sum of n products is the exact sum for weights with relative errors of
// at most n u, which differ from row to row. Folding rounds W diag(A) once more, and the map at the site rounds three
// times. So both models differ from the exact logits as if their numbers had relative errors of at most e = (n + 4) u.
// The condition number is the factor from these errors to those of the logits. In f32 it is measured with changes of e,
// since the logits need not be linear in them. In f64 it is measured with changes of 1e-9, far above the rounding of
// f64 itself.
inline double folding_tolerance(Transformer& model, const TranslationBatch& batch, DType dtype) {
  const double u =
      (dtype == DType::f64 ? std::numeric_limits<double>::epsilon() : double(std::numeric_limits<float>::epsilon())) /
      2;
  const double n = double(std::max(model.config().width, model.config().ffn_width)), e = (n + 4) * u;
  return 2 * e * condition_number(model, batch, std::max(e, 1e-9));
}

}  // namespace foldgrad::testing
