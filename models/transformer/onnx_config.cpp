#include "models/transformer/onnx_config.h"

#include <nlohmann/json.hpp>

#include "models/transformer/beam_search.h"

namespace foldgrad {

using nlohmann::ordered_json;

std::string runtime_config(const TransformerConfig& config) {
  const std::int64_t eos = DecodingOptions().eos;
  return ordered_json{{"model_type", "marian"},
                      {"is_encoder_decoder", true},
                      {"vocab_size", config.target_vocabulary},  // beam search takes it for the width of the logits
                      {"d_model", config.width},
                      {"encoder_layers", config.encoder_layers},
                      {"decoder_layers", config.decoder_layers},
                      {"encoder_attention_heads", config.heads},
                      {"decoder_attention_heads", config.heads},
                      {"encoder_ffn_dim", config.ffn_width},
                      {"decoder_ffn_dim", config.ffn_width},
                      {"max_position_embeddings", config.max_positions},
                      {"pad_token_id", config.pad},
                      {"eos_token_id", eos},
                      {"decoder_start_token_id", eos},
                      {"forced_eos_token_id", nullptr}}
             .dump(2) +
         "\n";
}

std::string runtime_generation_config(const TransformerConfig& config) {
  const std::int64_t eos = DecodingOptions().eos;
  return ordered_json{{"pad_token_id", config.pad},        {"eos_token_id", eos},
                      {"decoder_start_token_id", eos},     {"forced_eos_token_id", nullptr},
                      {"bad_words_ids", {{config.pad}}},   {"min_new_tokens", 1},
                      {"max_length", config.max_positions}}
             .dump(2) +
         "\n";
}

}  // namespace foldgrad
