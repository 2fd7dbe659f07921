// The sizes and choices common to the blocks of all models. A family's configuration derives from BlockConfig.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/activation/activation_math.h"

namespace foldgrad {

class Normalizer;

// The weight matrices of a block: the q, k, v and output projections of attention, and the two feed-forward layers.
enum class BlockMatrix : std::uint8_t { qkv, out, fc1, fc2 };

struct BlockConfig {
  std::int64_t width = 512, ffn_width = 1024, heads = 4;

  double dropout = 0.3;             // applied to embeddings and to the branches of sublayers
  double attention_dropout = 0.1;   // applied to attention probabilities
  double activation_dropout = 0.1;  // applied after the activation of a feed-forward block
  // Stochastic depth [DO-6]: the probability that the last layer drops a sublayer's branch for a sample. The
  // probability grows linearly over the layers, from 0 in the first (timm, vision_transformer.py). Only families that
  // use BlockMaker::at_layer() apply it.
  double drop_path = 0;

  // These members matter only in families that have keys for them. With `bias`, all linear layers of blocks have
  // biases. With `input_bias`, the linear layers that read a normalizer's result have biases even if `bias` is off;
  // folding sets it. With `gated`, a feed-forward block is fc2(activation(gate(x)) * fc1(x)) (Shazeer, "GLU Variants
  // Improve Transformer", 2020).
  bool bias = true, input_bias = false, gated = false;
  bool has_bias(BlockMatrix matrix) const {
    return bias || (input_bias && (matrix == BlockMatrix::qkv || matrix == BlockMatrix::fc1));
  }

  // If true, the matrices that standardization_scope selects are standardized [WS-3], and each row has a gain.
  bool weight_standardization = false;
  std::string standardization_scope = "all";  // one of kStandardizationScopes
  bool standardizes(BlockMatrix) const;

  bool pre_norm = true;             // normalize before each sublayer and after each stack; if false, after each sum
  std::string activation = "relu";  // one of activation_names()

  // The normalizer at every site, with options for make_normalizer. The model itself sets further options for deepnorm,
  // dyt and derf (BlockMaker::normalizer()).
  std::string normalizer = "ln";
  std::map<std::string, std::string> normalizer_options = {};
  // The normalizers of sites that do not use `normalizer`. These normalizers have their default options. A folded model
  // has normalizer = "none" and lists its remaining maps here (models/fold/model.h): "affine", "scale" or "centernorm",
  // at a site or at SUBLAYER.residual, for instance encoder.layers.1.self_attn.residual. A residual site exists only if
  // it is listed; its map applies to x before the residual sum.
  std::map<std::string, std::string> normalizer_at = {};

  // Throws std::invalid_argument for an invalid value: "FAMILY: key must be ..., got ...". The normalizer's options are
  // checked by make_normalizer.
  void validate(const char* family) const;
  // Throws std::invalid_argument unless every key of normalizer_at is the site of one of these normalizers.
  void validate_sites(const char* family, const std::vector<Normalizer*>& normalizers) const;
  static std::vector<std::string> activation_names();
  // Returns the function that `activation` names. Throws std::invalid_argument if there is no such function.
  Activation activation_function() const;
  bool operator==(const BlockConfig&) const = default;
};

// The values of standardization_scope: all four matrices of a block, or the matrices in the value's name.
inline const std::vector<std::string> kStandardizationScopes{"all", "qkv_fc1", "out_ffn", "ffn"};
// The weights that tfixup scales: "v_out_ffn" as published, or "all", which adds the weights of queries and keys.
inline const std::vector<std::string> kTfixupScopes{"v_out_ffn", "all"};

// Throws std::invalid_argument unless each KEY has a positive value: "FAMILY: KEY must be at least 1, got ...".
void require_positive(const char* family, std::initializer_list<std::pair<const char* const, std::int64_t>> counts);
// Throws std::invalid_argument unless `value` is one of `choices`: "FAMILY: KEY must be one of ..., got ...".
void require_choice(const char* family, const char* key, const std::string& value,
                    const std::vector<std::string>& choices);

}  // namespace foldgrad
