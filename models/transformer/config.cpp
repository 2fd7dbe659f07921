#include "models/transformer/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "engine/check.h"
#include "models/normalizers/normalizer.h"
#include "ops/activation/activation.h"

namespace foldgrad {
namespace {

void check_choice(const char* key, const std::string& value, const std::vector<std::string>& choices) {
  FOLDGRAD_CHECK(std::find(choices.begin(), choices.end(), value) != choices.end(),
                 "transformer: {} must be one of {}, got \"{}\"", key, fmt::join(choices, ", "), value);
}

constexpr Activation kActivations[] = {Activation::relu, Activation::tanh, Activation::sigmoid,
                                       Activation::silu, Activation::gelu, Activation::gelu_tanh};

}  // namespace

void TransformerConfig::validate() const {
  using Count = std::pair<const char*, std::int64_t>;
  for (const auto& [key, value] : {Count{"source_vocabulary", source_vocabulary},
                                   {"target_vocabulary", target_vocabulary},
                                   {"width", width},
                                   {"ffn_width", ffn_width},
                                   {"heads", heads},
                                   {"encoder_layers", encoder_layers},
                                   {"decoder_layers", decoder_layers},
                                   {"max_positions", max_positions}})
    FOLDGRAD_CHECK(value >= 1, "transformer: {} must be at least 1, got {}", key, value);
  FOLDGRAD_CHECK(width >= 4 && width % 2 == 0, "transformer: width must be even and at least 4, got {}", width);
  FOLDGRAD_CHECK(width % heads == 0, "transformer: heads must divide width = {}, got {}", width, heads);
  FOLDGRAD_CHECK(width / heads <= 128,
                 "transformer: heads must be at least {} so that each has at most 128 of {} "
                 "channels, got {}",
                 (width + 127) / 128, width, heads);
  using Probability = std::pair<const char*, double>;
  for (const auto& [key, value] : {Probability{"dropout", dropout},
                                   {"attention_dropout", attention_dropout},
                                   {"activation_dropout", activation_dropout}})
    FOLDGRAD_CHECK(value >= 0 && value < 1, "transformer: {} must be in [0, 1), got {}", key, value);
  for (std::int64_t rows : {source_vocabulary, target_vocabulary})
    FOLDGRAD_CHECK(pad >= 0 && pad < rows, "transformer: pad must be an id in [0, {}), got {}", rows, pad);
  activation_function();
  check_choice("share_embeddings", share_embeddings, {"all", "decoder", "inputs", "none"});
  check_choice("initialization", initialization, {"fairseq", "xavier", "tfixup"});
  check_choice("tfixup_scope", tfixup_scope, {"v_out_ffn", "all"});
  FOLDGRAD_CHECK(!one_input_table() || source_vocabulary == target_vocabulary,
                 "transformer: share_embeddings = {} needs target_vocabulary = source_vocabulary = {}, got {}",
                 share_embeddings, source_vocabulary, target_vocabulary);
  FOLDGRAD_CHECK(!pre_norm || !normalizer_info(normalizer).post_norm_only,
                 "transformer: pre_norm must be off with normalizer = {}, which scales the sum of post-norm",
                 normalizer);
}

Activation TransformerConfig::activation_function() const {
  std::vector<std::string> names;
  for (Activation a : kActivations) {
    if (activation == name(a)) return a;
    names.push_back(name(a));
  }
  check_choice("activation", activation, names);
  return Activation::relu;
}

}  // namespace foldgrad
