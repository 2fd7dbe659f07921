// A decoder-only Transformer small enough for central differences, and sequences for it.
#pragma once
#include <algorithm>

#include "models/gpt/decoder.h"
#include "models/gpt/gpt.h"
#include "tests/models/any_model.h"

namespace foldgrad::testing {

inline GptConfig tiny_gpt(const std::string& normalizer = "ln", bool pre_norm = true) {
  GptConfig config;
  config.vocabulary = 7, config.context = 6;
  config.width = 8, config.ffn_width = 12, config.heads = 2, config.layers = 2;
  config.dropout = config.attention_dropout = 0;
  config.normalizer = normalizer;
  config.normalizer_options = suitable_options(normalizer);
  config.pre_norm = pre_norm;
  return config;
}

// Returns a configuration in LLaMA's form, with a learned factor for the embeddings.
inline GptConfig tiny_llama(const std::string& normalizer) {
  GptConfig config = tiny_gpt(normalizer);
  config.positions = "rotary", config.activation = "silu", config.gated = config.scaled_embedding = true;
  config.bias = config.tied = config.depth_scaled_init = false;
  return config;
}

// Returns two configurations with pre-norm and two with post-norm: one has learned positions and tied embeddings, the
// other has sinusoidal positions and a separate output projection with a bias. A fifth configuration has LLaMA's form.
// For deepnorm, returns only those with post-norm.
inline std::vector<GptConfig> gpt_kinds(const std::string& normalizer) {
  std::vector<GptConfig> kinds;
  for (const bool pre_norm : {true, false})
    for (const bool tied : {true, false}) {
      if (pre_norm && normalizer == "deepnorm") continue;
      GptConfig config = tiny_gpt(normalizer, pre_norm);
      config.tied = tied, config.output_bias = !tied, config.positions = tied ? "learned" : "sinusoidal";
      kinds.push_back(config);
    }
  if (normalizer != "deepnorm") kinds.push_back(tiny_llama(normalizer));
  return kinds;
}
inline std::string describe(const GptConfig& config) {
  return config.normalizer + (config.pre_norm ? ", pre-norm, " : ", post-norm, ") + config.positions +
         options_of(config);
}

inline NamedTensors sequences_of(const GptConfig& config) {
  return {{"ids", random_ids({3, 5}, config.vocabulary, 7)}, {"target", random_ids({3, 5}, config.vocabulary, 8)}};
}

template <>
struct Kinds<Gpt> {
  static NamedTensors inputs(const GptConfig& config) { return sequences_of(config); }
  static std::vector<GptConfig> few(const std::string& normalizer) { return gpt_kinds(normalizer); }
  static std::vector<GptConfig> all(const std::string& normalizer) { return gpt_kinds(normalizer); }
};

inline std::unique_ptr<Gpt> random_gpt(const GptConfig& config, DType dtype = DType::f64) {
  return random_model<Gpt>(config, dtype);
}

// Runs a forward pass over each whole text, and returns the logits after its last token, [texts, vocabulary] in f64.
inline Tensor following(Gpt& model, const std::vector<TokenIds>& texts) {
  const std::int64_t V = model.config().vocabulary;
  const Tensor all = Tensor::empty({std::int64_t(texts.size()), V}, DType::f64);
  for (std::size_t s = 0; s < texts.size(); ++s) {
    const auto T = std::int64_t(texts[s].size());
    const Tensor logits = inference_logits(model, {{"ids", Tensor::of({1, T}, texts[s])}}, model.dtype());
    std::copy_n(logits.data<double>() + (T - 1) * V, V, all.data<double>() + std::int64_t(s) * V);
  }
  return all;
}

inline std::int64_t longest(const std::vector<TokenIds>& texts) {
  return std::int64_t(std::ranges::max_element(texts, {}, &TokenIds::size)->size());
}

}  // namespace foldgrad::testing
