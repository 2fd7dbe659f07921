// Small Swin Transformers.
#pragma once
#include "models/swin/swin.h"
#include "tests/models/vit/tiny_vit.h"

namespace foldgrad::testing {

// Returns a configuration with two maps: 4 x 4 tokens in four windows, which the second layer shifts, and 2 x 2 tokens.
inline SwinConfig tiny_swin(const std::string& normalizer = "ln") {
  SwinConfig config;
  config.image_size = 8, config.patch = 2, config.window = 2, config.depths = {2, 1}, config.classes = 5;
  config.width = 8, config.ffn_width = 12, config.heads = 2;
  config.normalizer = normalizer, config.normalizer_options = suitable_options(normalizer);
  return config;
}

template <>
struct Kinds<Swin> {
  static NamedTensors inputs(const SwinConfig& config) { return images_of(config); }
  static std::vector<SwinConfig> few(const std::string& normalizer) {
    if (normalizer == "deepnorm") return {};  // requires post-norm
    return {tiny_swin(normalizer)};
  }
  static std::vector<SwinConfig> all(const std::string& normalizer) {
    std::vector<SwinConfig> kinds = few(normalizer);
    for (SwinConfig config : few(normalizer)) {
      config.qkv_bias = false, config.fc_norm = config.reduction_bias = true;
      kinds.push_back(config);
    }
    return kinds;
  }
};

}  // namespace foldgrad::testing
