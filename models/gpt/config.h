// The sizes and choices of a decoder-only Transformer. The defaults are those of nanoGPT's character-level model
// (karpathy/nanoGPT, config/train_shakespeare_char.py).
#pragma once
#include "models/blocks/config.h"

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

  // Throws std::invalid_argument with the key, the requirement and the value.
  void validate() const;

  bool operator==(const GptConfig&) const = default;
};

}  // namespace foldgrad
