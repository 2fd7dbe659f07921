// The sizes and choices of a Compact Convolutional Transformer (Hassani et al.: "Escaping the Big Data Paradigm with
// Compact Transformers", 2021). The defaults are CCT-4/3x2 for images of 32 x 32.
#pragma once
#include <fmt/format.h>

#include "models/images/config.h"

namespace foldgrad {

struct CctConfig : TokenModelConfig {
  static constexpr std::int64_t kMostConvs = 6;
  std::int64_t convs = 2;   // convolutions between an image and its tokens
  std::int64_t kernel = 3;  // side length in pixels: 3, 5 or 7

  // Implemented in models/images/init.cpp.
  static inline const std::vector<std::string> kInitializations{"cct", "pytorch", "tfixup"};

  // "cct": every convolution except the last has 64 channels, and there are no normalizers. "hybrid": the last
  // convolution has `width` channels, every other one has half as many channels as the next, and a normalizer follows
  // each convolution.
  static inline const std::vector<std::string> kStems{"cct", "hybrid"};
  std::string stem = "cct";
  // "pre": pre-norm. "cct": as published, with a layer's second normalizer on the stream (models/blocks/layers.h).
  static inline const std::vector<std::string> kBlocks{"pre", "cct"};
  std::string block = "pre";

  CctConfig();
  bool hybrid() const { return stem == "hybrid"; }
  // True if convolutions have biases, which a hybrid stem needs for folding its normalizers.
  bool conv_bias() const { return hybrid() && qkv_bias; }
  std::int64_t stride() const { return kernel < 7 ? 1 : 2; }  // stride of a convolution
  std::int64_t padding() const { return kernel / 2; }
  std::int64_t channels(std::int64_t conv) const;
  bool pooled(std::int64_t conv) const { return !hybrid() || conv > 0; }
  // Return the side length of the map in pixels after a convolution, without and with the pooling that may follow.
  std::int64_t side_of_conv(std::int64_t conv) const;
  std::int64_t side_of_pool(std::int64_t conv) const;

  std::int64_t tokens() const;
  std::int64_t smallest_image() const;
  void validate() const;
  bool operator==(const CctConfig&) const = default;
};

void visit_keys(KeysOf<CctConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.stem, "stem",
         "Stem: cct (convolutions, as published) or hybrid (fewer channels, and a normalizer after each convolution)",
         CctConfig::kStems);
  needed(m.convs, "convs", "", "Number of convolutions that turn an image into tokens",
         within(1, CctConfig::kMostConvs));
  needed(m.kernel, "kernel", "pixels", "Kernel size of the convolutions: 3, 5 or 7", within(3, 7));
  visit_image_size_keys(m, v);
  needed(m.block, "block",
         "Order of normalizers: pre (pre-norm), or cct (as published: a layer's second normalizer normalizes the "
         "residual stream itself)",
         CctConfig::kBlocks);
  v(m.qkv_bias, from_data("qkv_bias"));
  needed(m.activation, "activation", "Activation of feed-forward blocks", m.activation_names());
  visit_image_training_keys(m, v);
}

inline ExpectedParameters expected_parameters(const CctConfig& c) {
  const std::string last = std::to_string(c.convs - 1);
  const std::int64_t in = c.convs > 1 ? c.channels(c.convs - 2) : kImageChannels;
  ExpectedParameters all{{"tokenizer.conv_layers." + last + ".0.weight", {c.width, in, c.kernel, c.kernel}},
                         {"classifier.positional_emb", {1, c.tokens(), c.width}},
                         {"classifier.fc.weight", {c.classes, c.width}}};
  for (const std::int64_t layer : {std::int64_t(0), c.layers - 1})
    all.push_back({fmt::format("classifier.blocks.{}.linear1.weight", layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
