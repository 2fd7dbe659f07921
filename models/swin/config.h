// The sizes and choices of a Swin Transformer (Liu et al.: "Swin Transformer: Hierarchical Vision Transformer using
// Shifted Windows", 2021). The defaults are Swin-T, for images of 224 x 224.
#pragma once
#include <fmt/format.h>

#include <algorithm>

#include "models/images/config.h"

namespace foldgrad {

// `width`, `ffn_width` and `heads` apply to the first stage; each later stage doubles all three.
struct SwinConfig : ImageModelConfig {
  std::int64_t patch = 4;                        // patch size in pixels; patches do not overlap
  std::int64_t window = 7;                       // window size in tokens
  std::vector<std::int64_t> depths{2, 2, 6, 2};  // layers of each stage
  bool qkv_bias = true;                          // the layers for queries, keys and values have a bias
  bool reduction_bias = false;                   // the layers between stages have a bias; set by folding

  static constexpr std::int64_t kMostStages = 8;
  // The largest side of the map, in patches. A model keeps tables for each map, and no parameter's shape confirms their
  // size.
  static constexpr std::int64_t kMostPatches = 512;

  SwinConfig();

  // Stages are counted from 0.
  std::int64_t stages() const { return std::int64_t(depths.size()); }
  std::int64_t layers() const;
  std::int64_t width_of(std::int64_t stage) const { return width << stage; }
  std::int64_t heads_of(std::int64_t stage) const { return heads << stage; }
  std::int64_t side_of(std::int64_t stage) const { return image_size / patch >> stage; }  // the map's side in tokens
  // Return the side of a window in tokens, and the number of tokens by which odd layers shift their windows.
  std::int64_t window_of(std::int64_t stage) const { return std::min(window, side_of(stage)); }
  std::int64_t shift_of(std::int64_t stage) const { return side_of(stage) > window ? window / 2 : 0; }
  // True if the window size divides the side of each larger map.
  bool windows_fit() const;
  // Returns a value even for configurations that validate() refuses.
  std::int64_t smallest_image() const { return patch << std::clamp<std::int64_t>(stages() - 1, 0, kMostStages - 1); }
  void validate() const;
  bool operator==(const SwinConfig&) const = default;
};

void visit_keys(KeysOf<SwinConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const Range size = within(1, kMostOfASize);
  needed(m.patch, "patch", "pixels", "Patch size; patch * 2^(stages - 1) must divide the image size", size);
  needed(m.window, "window", "tokens",
         "Window size; must divide the size of every feature map that is larger than the window", size);
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
