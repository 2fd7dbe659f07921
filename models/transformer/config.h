// The sizes and choices of an encoder-decoder Transformer. The defaults are fairseq's transformer_iwslt_de_en with
// pre-norm and shared embeddings (facebookresearch/fairseq, models/transformer.py; Vaswani et al., 2017).
#pragma once
#include <fmt/format.h>

#include "models/blocks/config.h"
#include "models/blocks/keys.h"
#include "models/transformer/ids.h"

namespace foldgrad {

struct TransformerConfig : BlockConfig {
  std::int64_t source_vocabulary = 0, target_vocabulary = 0;  // numbers of rows in the embedding tables
  std::int64_t encoder_layers = 6, decoder_layers = 6;
  std::int64_t max_positions = 1024;  // number of tokens in the longest sentence, including the end token
  std::int64_t pad = kPad;            // token id of padding

  // "all": source, target and output projection share one table; "decoder": only target and output projection share a
  // table; "inputs": only source and target share a table; "none": there are three tables.
  static inline const std::vector<std::string> kSharedEmbeddings{"all", "decoder", "none"};  // folding makes "inputs"
  std::string share_embeddings = "all";
  // Divides the rows of the tables by their lengths [FN-1], in the token embedding and in the output projection.
  bool fixnorm = false;
  bool output_bias = false;  // the output projection has a bias, decoder.output_projection.bias
  bool one_input_table() const { return share_embeddings == "all" || share_embeddings == "inputs"; }
  bool own_output_table() const { return share_embeddings == "none" || share_embeddings == "inputs"; }

  static inline const std::vector<std::string> kInitializations{"fairseq", "xavier", "tfixup"};  // see init.cpp
  std::string initialization = "fairseq";
  std::string tfixup_scope = "v_out_ffn";  // one of kTfixupScopes

  void validate() const;
  bool operator==(const TransformerConfig&) const = default;
};

void visit_keys(KeysOf<TransformerConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required), model = keys_in("model", v);
  const Range size = within(1, kMostOfASize);
  v(m.source_vocabulary, required(from_data("source_vocabulary")));
  v(m.target_vocabulary, required(from_data("target_vocabulary")));
  visit_size_keys(m, v);
  needed(m.encoder_layers, "encoder_layers", "", "Number of encoder layers", size);
  needed(m.decoder_layers, "decoder_layers", "", "Number of decoder layers", size);
  needed(m.max_positions, "max_positions", "tokens", "Maximum sentence length, including the end token",
         within(1, kMostPositions));
  v(m.pad, required(from_data("pad")));
  visit_layer_keys(m, v);
  needed(m.share_embeddings, "share_embeddings",
         "Which embedding tables share their weights with the output projection", m.kSharedEmbeddings);
  model(m.fixnorm, "fixnorm", "", "Divide each row of the embedding tables by its norm (FixNorm)");
  v(m.output_bias, from_data("output_bias"));
  visit_dropout_keys(m, v);
  model(m.initialization, "initialization", "Initial weights", m.kInitializations);
  model(m.tfixup_scope, "tfixup_scope", "Which weights tfixup scales", kTfixupScopes);
  visit_normalizer_key(m, v);
}

inline TransformerConfig smallest(TransformerConfig config) {
  config.source_vocabulary = config.target_vocabulary = 8;
  config.validate();
  config.encoder_layers = config.decoder_layers = config.max_positions = 1;
  return config;
}

inline ExpectedParameters expected_parameters(const TransformerConfig& c) {
  ExpectedParameters all{{"encoder.embed_tokens.weight", {c.source_vocabulary, c.width}}};
  if (!c.one_input_table()) all.push_back({"decoder.embed_tokens.weight", {c.target_vocabulary, c.width}});
  using Stack = std::pair<const char*, std::int64_t>;
  for (const auto& [stack, layers] : {Stack{"encoder", c.encoder_layers}, {"decoder", c.decoder_layers}})
    for (const std::int64_t layer : {std::int64_t(0), layers - 1})
      all.push_back({fmt::format("{}.layers.{}.fc1.weight", stack, layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
