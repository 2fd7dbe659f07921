// The configuration of a Swin Transformer for experiments and files (models/blocks/keys.h).
#pragma once
#include <fmt/format.h>

#include "models/images/family.h"
#include "models/swin/config.h"

namespace foldgrad {

void visit_keys(KeysOf<SwinConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const Range size = within(1, kMostOfASize);
  needed(m.patch, "patch", "pixels", "Patch size; patch * 2^(stages - 1) must divide the image size", size);
  needed(m.window, "window", "tokens", "Window size; must divide the size of every larger feature map", size);
  needed(m.depths, "depths", "",
         "Number of layers in each stage; every stage after the first halves the feature map and doubles width, "
         "ffn_width and heads",
         size);
  visit_data_size_keys(m, v);
  visit_size_keys(m, v);
  needed(m.qkv_bias, "qkv_bias", "", "Add a bias to queries, keys and values");
  v(m.reduction_bias, from_data("reduction_bias"));
  needed(m.activation, "activation", "Activation of feed-forward blocks", m.activation_names());
  keys_in("model", v)(m.fc_norm, "fc_norm", "",
                      "Normalize the classifier's input instead of the output tokens of the last layer");
  visit_dropout_keys(m, v);
  visit_drop_path_key(m, v);
  visit_data_and_normalizer_keys(m, v);
}

inline SwinConfig smallest(SwinConfig config) {
  require_positive("swin", {{"patch", config.patch}, {"window", config.window}});
  const std::int64_t step = config.smallest_image();
  config.image_size = step, config.classes = 2;
  // Ends at window * step at the latest, where the window divides every map.
  while (!config.windows_fit()) config.image_size += step;
  config.validate();
  config.depths.assign(config.depths.size(), 1);
  return config;
}

inline ExpectedParameters expected_parameters(const SwinConfig& c) {
  ExpectedParameters all{{"patch_embed.proj.weight", {c.width, kImageChannels, c.patch, c.patch}},
                         {"head.weight", {c.classes, c.width_of(c.stages() - 1)}}};
  for (std::int64_t s = 0; s < c.stages(); ++s) {
    const std::string last = fmt::format("layers.{}.blocks.{}", s, c.depths[std::size_t(s)] - 1);
    const std::int64_t table = 2 * c.window_of(s) - 1;
    all.push_back({last + ".mlp.fc1.weight", {c.ffn_width << s, c.width_of(s)}});
    all.push_back({last + ".attn.relative_position_bias_table", {table * table, c.heads_of(s)}});
  }
  return all;
}

}  // namespace foldgrad
