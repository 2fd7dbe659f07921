// The sizes and choices of a Tokens-to-Token vision Transformer (Yuan et al.: "Tokens-to-Token ViT", ICCV 2021). The
// defaults are T2T-ViT-14 with unfolds for 32 x 32 images; the published unfolds, for 224 x 224, are {7, 3, 3}, {4, 2,
// 2}, {2, 1, 1}.
#pragma once
#include <fmt/format.h>

#include "models/images/config.h"

namespace foldgrad {

struct T2tConfig : TokenModelConfig {
  static constexpr std::size_t kUnfolds = 3;     // a token module follows each unfold except the last
  static constexpr std::int64_t kMostSide = 64;  // largest kernel side and largest stride

  static inline const std::vector<std::string> kInitializations{"t2t"};  // see t2t.h

  // The side of the kernel, the stride and the padding of each unfold, in pixels of its map.
  std::vector<std::int64_t> kernels{3, 3, 3}, strides{1, 2, 2}, paddings{1, 1, 1};
  std::int64_t token_width = 64;  // number of channels in the results of the token modules
  // The attention of token modules, with random features or with a softmax.
  static inline const std::vector<std::string> kTokenAttentions{"performer", "softmax"};
  std::string token_attention = "performer";
  double token_dropout = 0.1;  // applied to both branches of a token module; the authors' softmax has no dropout

  T2tConfig();
  bool has_performers() const { return token_attention == "performer"; }
  std::int64_t features() const { return token_width / 2; }
  // Returns the side of the map in pixels after the first `unfolds` unfolds.
  std::int64_t side(std::size_t unfolds) const;
  // Returns the number of elements in each patch of an unfold.
  std::int64_t patch_size(std::size_t unfold) const;
  std::int64_t tokens() const { return side(kUnfolds) * side(kUnfolds) + has_cls(); }

  // Both throw std::invalid_argument if a value is invalid; the message names the key, the requirement and the value.
  std::int64_t smallest_image() const;
  void validate() const;
  bool operator==(const T2tConfig&) const = default;
};

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
