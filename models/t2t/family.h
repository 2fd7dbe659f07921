// The configuration of a Tokens-to-Token vision Transformer for experiments and files (models/blocks/keys.h).
#pragma once
#include <fmt/format.h>

#include "models/images/family.h"
#include "models/t2t/config.h"

namespace foldgrad {

void visit_keys(KeysOf<T2tConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.kernels, "kernels", "pixels", "Kernel sizes of the three unfold operations",
         within(1, T2tConfig::kMostSide));
  needed(m.strides, "strides", "pixels", "Strides of the three unfold operations", within(1, T2tConfig::kMostSide));
  needed(m.paddings, "paddings", "pixels",
         "Padding on each side in the three unfold operations; each must be smaller than the kernel",
         within(0, T2tConfig::kMostSide));
  needed(m.token_width, "token_width", "channels",
         "Hidden size of the token modules; must be even, and at most 128 with softmax attention", within(2, 4096));
  needed(m.token_attention, "token_attention", "Attention in the token modules: random features or softmax",
         T2tConfig::kTokenAttentions);
  visit_image_size_keys(m, v);
  v(m.qkv_bias, from_data("qkv_bias"));
  needed(m.activation, "activation", "Activation of feed-forward blocks", m.activation_names());
  keys_in("model", v)(m.token_dropout, "token_dropout", "", "Dropout rate for both branches of a token module",
                      kFraction);
  visit_dropout_keys(m, v);
  visit_drop_path_key(m, v);
  visit_data_and_normalizer_keys(m, v);
}

inline ExpectedParameters expected_parameters(const T2tConfig& c) {
  ExpectedParameters all{{"tokens_to_token.project.weight", {c.width, c.patch_size(T2tConfig::kUnfolds - 1)}},
                         {"pos_embed", {1, c.tokens(), c.width}},
                         {"head.weight", {c.classes, c.width}}};
  const char* const qkv = c.has_performers() ? "kqv" : "attn.qkv";
  for (std::size_t i = 0; i + 1 < T2tConfig::kUnfolds; ++i)
    all.push_back(
        {fmt::format("tokens_to_token.attention{}.{}.weight", i + 1, qkv), {3 * c.token_width, c.patch_size(i)}});
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("blocks.{}.mlp.fc1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
