// The sizes and choices of a vision Transformer (Dosovitskiy et al., 2021). The defaults are ViT-S with 4 x 4 patches,
// for 32 x 32 images.
#pragma once
#include <fmt/format.h>

#include "models/images/config.h"

namespace foldgrad {

struct VitConfig : TokenModelConfig {
  // Implemented in models/images/init.cpp.
  static inline const std::vector<std::string> kInitializations{"timm", "pytorch", "tfixup"};

  std::int64_t patch = 4;  // patch size in pixels; patches do not overlap

  VitConfig();
  std::int64_t tokens() const { return (image_size / patch) * (image_size / patch) + has_cls(); }
  std::int64_t smallest_image() const { return patch; }
  void validate() const;
  bool operator==(const VitConfig&) const = default;
};

void visit_keys(KeysOf<VitConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.patch, "patch", "pixels", "Patch size; must divide the image size", within(1, kMostOfASize));
  visit_image_size_keys(m, v);
  needed(m.qkv_bias, "qkv_bias", "", "Add a bias to queries, keys and values");
  visit_layer_keys(m, v);
  keys_in("model", v, newer)(
      m.fc_norm, "fc_norm", "",
      "Normalize the classifier's input instead of the output tokens of the last layer; needs pre_norm");
  visit_image_training_keys(m, v);
}

inline ExpectedParameters expected_parameters(const VitConfig& c) {
  ExpectedParameters all{{"patch_embed.proj.weight", {c.width, kImageChannels, c.patch, c.patch}},
                         {"pos_embed", {1, c.tokens(), c.width}},
                         {"head.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("blocks.{}.mlp.fc1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
