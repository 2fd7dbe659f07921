// Small Tokens-to-Token vision Transformers.
#pragma once
#include "models/t2t/t2t.h"
#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {

// Returns a configuration for images of 8 x 8 pixels, with maps of 4 x 4, 2 x 2 and 2 x 2 tokens.
inline T2tConfig tiny_t2t(const std::string& token_attention = "performer", const std::string& normalizer = "ln",
                          std::int64_t token_width = 4) {
  T2tConfig config;
  config.image_size = 8, config.classes = 5;
  config.kernels = {4, 3, 3}, config.strides = {2, 2, 1}, config.paddings = {1, 1, 1};
  config.token_width = token_width, config.token_attention = token_attention, config.token_dropout = 0;
  config.width = 8, config.ffn_width = 12, config.heads = 2, config.layers = 2;
  config.normalizer = normalizer;
  config.normalizer_options = suitable_options(normalizer);
  return config;
}

template <>
struct Kinds<T2t> {
  static NamedTensors inputs(const T2tConfig& config) { return images_of(config); }
  static std::vector<T2tConfig> few(const std::string& normalizer) {
    if (normalizer == "deepnorm") return {};  // requires post-norm
    return {tiny_t2t("performer", normalizer, 8), tiny_t2t("softmax", normalizer, 8)};
  }
  static std::vector<T2tConfig> all(const std::string& normalizer) {
    std::vector<T2tConfig> kinds = few(normalizer);
    for (T2tConfig config : few(normalizer)) {
      config.qkv_bias = true, config.pooling = "mean";
      kinds.push_back(config);
    }
    return kinds;
  }
};

}  // namespace foldgrad::testing
