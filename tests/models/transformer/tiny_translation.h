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
  config.activation = "gelu";  // smooth
  config.normalizer = normalizer;
  config.pre_norm = pre_norm;
  return config;
}

inline Tensor mask_of(const Tensor& ids) {
  std::vector<std::uint8_t> mask;
  for (std::int64_t id : ids.values<std::int64_t>()) mask.push_back(id != 1);
  return Tensor::of(ids.shape(), mask);
}

// Returns sources padded on the left and targets on the right, each with `extra` columns more than needed.
inline TranslationBatch translation_batch(int extra = 0) {
  using Rows = std::vector<std::vector<std::int64_t>>;
  const Rows sources{{4, 5, 6, 2}, {7, 8, 9, 10, 2}, {4, 10, 2}}, inputs{{2, 5, 4, 6}, {2, 9, 9}, {2, 10}};
  const auto padded = [&](const Rows& rows, std::size_t columns, bool left) {
    columns += std::size_t(extra);
    std::vector<std::int64_t> ids;
    for (std::vector<std::int64_t> row : rows) {
      row.insert(left ? row.begin() : row.end(), columns - row.size(), 1);
      ids.insert(ids.end(), row.begin(), row.end());
    }
    return Tensor::of<std::int64_t>({std::int64_t(rows.size()), std::int64_t(columns)}, ids);
  };
  Rows targets = inputs;
  for (auto& row : targets) {
    row.erase(row.begin());
    row.push_back(2);
  }
  const Tensor source = padded(sources, 5, true), input = padded(inputs, 4, false), target = padded(targets, 4, false);
  return {source, mask_of(source), input, mask_of(input), target};
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
};
inline std::string describe(const TransformerConfig& config) {
  return config.normalizer + (config.pre_norm ? ", pre-norm" : ", post-norm") + options_of(config);
}

// Returns the logits of the tokens of batch.input, [tokens, vocabulary] in f64, by a pass on the tape.
inline Tensor logits_by_tape(Transformer& model, const TranslationBatch& batch, bool training = false,
                             std::optional<DType> dtype = {}) {
  Tape tape(/*recording=*/false);
  const ForwardPass pass{.tape = tape, .dtype = dtype.value_or(model.dtype()), .training = training};
  return model.logits(batch, pass).value().to(DType::f64);
}

// Returns the rows of x [B, T, C] where the mask is 1, in f64.
inline Tensor real_rows(const Tensor& x, const Tensor& mask) {
  const std::vector<std::uint8_t> real = mask.values<std::uint8_t>();
  const std::vector<double> values = x.to(DType::f64).values<double>();
  const std::int64_t C = x.shape()[-1];
  std::vector<double> kept;
  for (std::size_t i = 0; i < real.size(); ++i)
    if (real[i]) kept.insert(kept.end(), values.begin() + i * C, values.begin() + (i + 1) * C);
  return Tensor::of({std::int64_t(kept.size()) / C, C}, kept);
}

// Returns the logits of every token of batch.input, in the order of real_rows.
inline Tensor logits_by_steps(const InferenceTransformer& model, const TranslationBatch& batch) {
  const std::int64_t B = batch.input.shape()[0], T = batch.input.shape()[1], V = model.config().target_vocabulary;
  StepDecoder decoder(model, batch.source, batch.source_mask);
  const std::vector<std::int64_t> ids = batch.input.values<std::int64_t>();
  const Tensor all = Tensor::empty({B, T, V}, DType::f64);
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<std::int64_t> tokens, parents;
    for (std::int64_t b = 0; b < B; ++b) tokens.push_back(ids[b * T + t]), parents.push_back(b);
    const std::vector<double> z = decoder.step(tokens, parents).to(DType::f64).values<double>();
    for (std::int64_t b = 0; b < B; ++b) std::copy_n(z.begin() + b * V, V, all.data<double>() + (b * T + t) * V);
  }
  return real_rows(all, batch.input_mask);
}

// Returns the encoder's result for the tokens of the sources, [tokens, width].
inline Tensor encoded(Transformer& model, const TranslationBatch& batch, const ForwardPass& pass) {
  const Sentences source = model.sentences("encoder", batch.source, batch.source_mask, pass);
  return model.tokens_of(model.encode(source, pass), source.rows, pass).value();
}

inline Transformer& transformer_of(const FoldedModel& folded) { return as_transformer(*folded.model, "the test"); }

}  // namespace foldgrad::testing
