// The sizes and choices that the blocks of a model share. The configuration of a family begins with them.
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

// The matrices of a block: of queries, keys and values, of attention's result, and of the two layers after it.
enum class BlockMatrix : std::uint8_t { qkv, out, fc1, fc2 };

struct BlockConfig {
  std::int64_t width = 512, ffn_width = 1024, heads = 4;

  double dropout = 0.3;             // of embeddings and of what a sublayer adds
  double attention_dropout = 0.1;   // of probabilities
  double activation_dropout = 0.1;  // after the activation of a feed-forward block
  // Stochastic depth [DO-6]: how often the last layer leaves out what a sublayer adds to a sample. It grows linearly
  // from 0 in the first layer (timm, vision_transformer.py). Of families whose layers are made by
  // BlockMaker::at_layer().
  double drop_path = 0;

  // The matrices of a block that the scope names are used standardized [WS-3], with a gain for each row.
  bool weight_standardization = false;
  std::string standardization_scope = "all";  // one of kStandardizationScopes
  bool standardizes(BlockMatrix) const;

  bool pre_norm = true;  // normalizers before each sublayer and one after each stack; otherwise after each sum
  std::string activation = "relu";  // one of activation_names()

  // At every site; options as make_normalizer takes them. deepnorm is told the layers and the stack by the model.
  std::string normalizer = "ln";
  std::map<std::string, std::string> normalizer_options = {};
  // Sites that have another one, with its default options. A folded model has normalizer = "none" and here what is left
  // of it (models/fold/model.h): "affine", "scale" or "centernorm" at a site, or at SUBLAYER.residual, a site that
  // exists only when it stands here: of x on its way into the sum, as in encoder.layers.1.self_attn.residual.
  std::map<std::string, std::string> normalizer_at = {};
  // Padding is not computed. Off: in training it is, and counts in statistics, as in the authors' code of UN.
  bool mask_normalizers = true;

  // Throws std::invalid_argument: "FAMILY: key must be ..., got ...". The normalizer's options are checked where
  // normalizers are made.
  void validate(const char* family) const;
  // Throws std::invalid_argument unless every key of normalizer_at is the site of one of a model's normalizers.
  void validate_sites(const char* family, const std::vector<Normalizer*>& normalizers) const;
  static std::vector<std::string> activation_names();
  // Throws std::invalid_argument for one that validate() refuses.
  Activation activation_function() const;

  bool operator==(const BlockConfig&) const = default;
};

// The matrices that weight_standardization is about: all four of a block, or those that the names say.
inline const std::vector<std::string> kStandardizationScopes{"all", "qkv_fc1", "out_ffn", "ffn"};
// The weights that tfixup scales: "v_out_ffn" as published, or "all", those of queries and keys too.
inline const std::vector<std::string> kTfixupScopes{"v_out_ffn", "all"};

// Throws std::invalid_argument unless each of `counts`, (KEY, value), is positive: "FAMILY: KEY must be at least 1, got
// ...".
void require_positive(const char* family, std::initializer_list<std::pair<const char* const, std::int64_t>> counts);
// Throws std::invalid_argument unless `value` is one of `choices`: "FAMILY: KEY must be one of ..., got ...".
void require_choice(const char* family, const char* key, const std::string& value,
                    const std::vector<std::string>& choices);

}  // namespace foldgrad
