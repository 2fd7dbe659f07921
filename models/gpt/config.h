// The sizes and choices of a decoder-only Transformer. The defaults are as in nanoGPT's character-level model
// (karpathy/nanoGPT, config/train_shakespeare_char.py).
#pragma once
#include <fmt/format.h>

#include "models/blocks/config.h"
#include "models/blocks/keys.h"

namespace foldgrad {

struct GptConfig : BlockConfig {
  std::int64_t vocabulary = 0;  // number of rows in the embedding table
  std::int64_t layers = 6;
  std::int64_t context = 256;  // number of tokens in the longest sequence

  static inline const std::vector<std::string> kPositions{"learned", "sinusoidal", "rotary"};  // [GPT-1]
  std::string positions = "learned";
  double rotary_theta = 10000;    // [ROT-1]
  bool scaled_embedding = false;  // multiplies embeddings by a learned number, initially sqrt(width)
  bool depth_scaled_init = true;  // divides the initial weights of both c_proj layers by sqrt(2 * layers)
  bool tied = true;               // the output projection uses the embedding table
  bool output_bias = false;       // the output projection has a bias, lm_head.bias
  bool has_learned_positions() const { return positions == "learned"; }
  bool has_rotary_positions() const { return positions == "rotary"; }

  GptConfig();
  void validate() const;
  bool operator==(const GptConfig&) const = default;
};

void visit_keys(KeysOf<GptConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  v(m.vocabulary, required(from_data("vocabulary")));
  visit_size_keys(m, v);
  needed(m.layers, "layers", "", "Layers", within(1, kMostOfASize));
  needed(m.context, "context", "tokens", "Maximum sequence length; training uses sequences of this length",
         within(1, kMostPositions));
  visit_layer_keys(m, v);
  needed(m.positions, "positions", "Position encoding: learned vectors, sines and cosines, or rotated queries and keys",
         m.kPositions);
  const auto added = keys_in("model", v, newer);
  added(m.rotary_theta, "rotary_theta", "", "Base of the rotation angles in rotary position encoding", above(0));
  added(m.gated, "gated", "",
        "Multiply the output of the first linear layer in feed-forward blocks by the activation of a third linear "
        "layer (with silu, this is SwiGLU)");
  added(m.bias, "bias", "", "Biases of linear layers");
  v(m.input_bias, from_data("input_bias"));
  added(m.scaled_embedding, "scaled_embedding", "", "Multiply embeddings by a learned scalar, initially sqrt(width)");
  added(m.depth_scaled_init, "depth_scaled_init", "",
        "Divide the initial weights of each sublayer's last layer by sqrt(2 * layers)");
  needed(m.tied, "tied", "", "Use the embedding table as the output projection");
  v(m.output_bias, from_data("output_bias"));
  visit_dropout_keys(m, v);
  visit_normalizer_key(m, v);
}

inline GptConfig smallest(GptConfig config) {
  config.vocabulary = 2;
  config.validate();
  config.layers = config.context = 1;
  return config;
}

inline ExpectedParameters expected_parameters(const GptConfig& c) {
  ExpectedParameters all{{"wte.weight", {c.vocabulary, c.width}}};
  if (c.has_learned_positions()) all.push_back({"wpe.weight", {c.context, c.width}});
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("h.{}.mlp.c_fc.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
