// The configuration of a compact convolutional Transformer for experiments and files (models/blocks/keys.h).
#pragma once
#include <fmt/format.h>

#include "models/cct/config.h"
#include "models/images/family.h"

namespace foldgrad {

void visit_keys(KeysOf<CctConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.stem, "stem",
         "Stem: convolutions as published, or hybrid, with fewer channels and a normalizer after each convolution",
         CctConfig::kStems);
  needed(m.convs, "convs", "", "Number of convolutions that turn an image into tokens", within(1, 6));
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
