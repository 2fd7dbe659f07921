// A Transformer small enough for central differences, and a batch for it.
#pragma once
#include "models/transformer/inference.h"
#include "models/transformer/transformer.h"
#include "tests/harness/op_spec.h"
#include "tests/models/any_model.h"

namespace foldgrad::testing {

inline TransformerConfig tiny_config(const std::string& normalizer = "ln", bool pre_norm = true) {
  TransformerConfig config;
  config.source_vocabulary = config.target_vocabulary = 11;
  config.width = 8, config.ffn_width = 12, config.heads = 2;
  config.encoder_layers = config.decoder_layers = 1;
  config.max_positions = 12;
  config.dropout = config.attention_dropout = config.activation_dropout = 0;
  config.activation = "gelu";  // smooth, for central differences
  config.normalizer = normalizer;
  config.pre_norm = pre_norm;
  return config;
}

inline TranslationBatch translation_batch() {
  return make_batch({{4, 5, 6, 2}, {7, 8, 9, 10, 2}, {4, 10, 2}}, {{5, 4, 6, 2}, {9, 9, 2}, {10, 2}});
}

template <>
struct Kinds<Transformer> {
  static NamedTensors inputs(const TransformerConfig&) { return translation_batch().named(); }
  static std::vector<TransformerConfig> few(const std::string& normalizer) {
    std::vector<TransformerConfig> kinds;
    for (const bool pre_norm : {true, false}) {
      if (pre_norm && normalizer == "deepnorm") continue;
      kinds.push_back(tiny_config(normalizer, pre_norm));
      kinds.back().normalizer_options = suitable_options(normalizer);
      kinds.back().encoder_layers = kinds.back().decoder_layers = 2;
    }
    return kinds;
  }
  static std::vector<TransformerConfig> all(const std::string& normalizer) {
    std::vector<TransformerConfig> kinds;
    for (TransformerConfig config : few(normalizer))
      for (const char* share : {"all", "decoder", "none"}) {
        config.share_embeddings = share;
        config.activation = share == std::string("none") ? "silu" : "gelu";
        kinds.push_back(config);
      }
    return kinds;
  }
};
inline std::string describe(const TransformerConfig& config) {
  return config.normalizer + (config.pre_norm ? ", pre-norm, " : ", post-norm, ") + config.share_embeddings +
         options_of(config);
}

// Runs a forward pass on a tape, and returns the logits of batch.input's tokens, [tokens, vocabulary] in f64.
inline Tensor logits_by_tape(Transformer& model, const TranslationBatch& batch, bool training = false,
                             std::optional<DType> dtype = {}) {
  Tape tape(/*recording=*/false);
  const ForwardPass pass{.tape = tape, .dtype = dtype.value_or(model.dtype()), .training = training};
  return model.logits(batch, pass).value().to(DType::f64);
}

// Computes the same logits as logits_by_tape(), but decodes one token at a time.
inline Tensor logits_by_steps(const InferenceTransformer& model, const TranslationBatch& batch) {
  const Segments& rows = batch.input.rows;
  const std::int64_t V = model.config().target_vocabulary;
  StepDecoder decoder(model, batch.source);
  const std::vector<std::int64_t> ids = batch.input.ids.values<std::int64_t>();
  const Tensor all = Tensor::empty({rows.rows(), V}, DType::f64);
  for (std::int64_t t = 0; t < rows.longest(); ++t) {
    std::vector<std::int64_t> tokens, parents;
    for (std::int64_t b = 0; b < rows.count(); ++b) {
      tokens.push_back(t < rows.length(b) ? ids[std::size_t(rows.offset(b) + t)] : kPad);
      parents.push_back(b);
    }
    const std::vector<double> z = decoder.step(tokens, parents).to(DType::f64).values<double>();
    for (std::int64_t b = 0; b < rows.count(); ++b)
      if (t < rows.length(b)) std::copy_n(z.begin() + b * V, V, all.data<double>() + (rows.offset(b) + t) * V);
  }
  return all;
}

// Returns the encoder's result for the sources, [tokens, width].
inline Tensor encoded(Transformer& model, const TranslationBatch& batch, const ForwardPass& pass) {
  return model.encode(model.placed("encoder", batch.source, pass), pass).value();
}

inline Transformer& transformer_of(const FoldedModel& folded) { return as_transformer(*folded.model, "the test"); }

}  // namespace foldgrad::testing
