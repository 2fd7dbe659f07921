// A vision Transformer small enough for central differences.
#pragma once
#include "models/vit/vit.h"
#include "tests/models/any_model.h"

namespace foldgrad::testing {

// Returns a configuration for images of four patches, 2 x 2 pixels each.
inline VitConfig tiny_vit(const std::string& normalizer = "ln", bool pre_norm = true) {
  VitConfig config;
  config.image_size = 4, config.patch = 2, config.classes = 5;
  config.width = 8, config.ffn_width = 12, config.heads = 2, config.layers = 2;
  config.normalizer = normalizer;
  config.normalizer_options = suitable_options(normalizer);
  config.pre_norm = pre_norm;
  return config;
}

inline Vit& vit_of(const FoldedModel& folded) { return dynamic_cast<Vit&>(*folded.model); }

}  // namespace foldgrad::testing
