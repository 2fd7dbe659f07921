// The sizes and choices of an encoder-decoder Transformer. The defaults are fairseq's transformer_iwslt_de_en with
// pre-norm and shared embeddings (facebookresearch/fairseq, models/transformer.py; Vaswani et al., 2017).
#pragma once
#include "models/blocks/config.h"
#include "models/transformer/ids.h"

namespace foldgrad {

struct TransformerConfig : BlockConfig {
  std::int64_t source_vocabulary = 0, target_vocabulary = 0;  // numbers of rows in the embedding tables
  std::int64_t encoder_layers = 6, decoder_layers = 6;
  std::int64_t max_positions = 1024;  // number of tokens in the longest sentence, including the end token
  std::int64_t pad = kPad;            // token id of padding

  // "all": source, target and output projection share one table; "decoder": only target and output projection share
  // one; "inputs": only source and target do; "none": there are three tables.
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

  // Throws std::invalid_argument with the key, the requirement and the value.
  void validate() const;

  bool operator==(const TransformerConfig&) const = default;
};

}  // namespace foldgrad
