// A Compact Convolutional Transformer small enough for central differences.
#pragma once
#include "models/cct/cct.h"
#include "tests/models/any_model.h"
#include "tests/models/images_of.h"

namespace foldgrad::testing {

// Four tokens. A hybrid stem has two convolutions, of four and of eight channels.
inline CctConfig tiny_cct(const std::string& normalizer = "ln", const std::string& stem = "cct",
                          const std::string& block = "pre") {
  CctConfig config;
  config.image_size = 4, config.classes = 5, config.convs = stem == "cct" ? 1 : 2;
  config.width = 8, config.ffn_width = 12, config.heads = 2, config.layers = 2;
  config.attention_dropout = 0;
  config.normalizer = normalizer, config.stem = stem, config.block = block;
  config.normalizer_options = suitable_options(normalizer);
  if (normalizer == "groupnorm") config.normalizer_options = {{"groups", "2"}};
  return config;
}

}  // namespace foldgrad::testing
