// The sizes and choices of an encoder-decoder Transformer. The defaults are fairseq's transformer_iwslt_de_en with
// pre-norm and shared embeddings (facebookresearch/fairseq, models/transformer.py; Vaswani et al., 2017).
#pragma once
#include <map>
#include <string>

#include "engine/dtype.h"
#include "ops/activation/activation_math.h"

namespace foldgrad {

struct TransformerConfig {
  std::int64_t source_vocabulary = 0, target_vocabulary = 0;  // rows of the embedding tables
  std::int64_t width = 512, ffn_width = 1024, heads = 4, encoder_layers = 6, decoder_layers = 6;
  std::int64_t max_positions = 1024;  // the longest sentence, its end included
  std::int64_t pad = 1;               // the id of padding

  double dropout = 0.3;             // of embeddings and of what a sublayer adds
  double attention_dropout = 0.1;   // of probabilities
  double activation_dropout = 0.1;  // after the activation of a feed-forward block

  bool pre_norm = true;  // normalizers before each sublayer and one behind each stack; otherwise after each sum
  std::string activation = "relu";  // or another that ops/activation names

  // "all": one table for the source, the target and the output projection; "decoder": the target's is also the output
  // projection; "inputs": one for source and target, the output projection has its own; "none": three tables.
  std::string share_embeddings = "all";
  // Rows of the tables count divided by their lengths [FN-1], where tokens enter and in the output projection.
  bool fixnorm = false;
  bool output_bias = false;  // of the output projection: decoder.output_projection.bias
  bool one_input_table() const { return share_embeddings == "all" || share_embeddings == "inputs"; }
  bool own_output_table() const { return share_embeddings == "none" || share_embeddings == "inputs"; }

  // At every site; options as make_normalizer takes them. deepnorm is told the layers and the stack by the model.
  std::string normalizer = "ln";
  std::map<std::string, std::string> normalizer_options = {};
  // Sites that have another one, with its default options. A folded model has normalizer = "none" and here what is left
  // of it (fold.h): "affine", "scale" or "centernorm" at a site, or at SUBLAYER.residual, a site that exists only when
  // it stands here: of x on its way into the sum, as in encoder.layers.1.self_attn.residual.
  std::map<std::string, std::string> normalizer_at = {};
  // Statistics leave padding out. The released code of Unified Normalization counts it in.
  bool mask_normalizers = true;

  // "fairseq", "xavier" or "tfixup", see init.h.
  std::string initialization = "fairseq";
  // What tfixup scales: "v_out_ffn" as published, or "all" for queries and keys too.
  std::string tfixup_scope = "v_out_ffn";

  // Throws std::invalid_argument that names the key, what it must be and what it is. The normalizer's options are
  // checked where normalizers are made.
  void validate() const;
  Activation activation_function() const;

  bool operator==(const TransformerConfig&) const = default;
};

}  // namespace foldgrad
