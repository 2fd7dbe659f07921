// A vision Transformer small enough for central differences, and images for it.
#pragma once
#include "models/fold/difference.h"
#include "models/vit/vit.h"
#include "tests/harness/compare.h"

namespace foldgrad::testing {

// Four patches of 2 x 2.
inline VitConfig tiny_vit(const std::string& normalizer = "ln", bool pre_norm = true) {
  VitConfig config;
  config.image_size = 4, config.patch = 2, config.classes = 5;
  config.width = 8, config.ffn_width = 12, config.heads = 2, config.layers = 2;
  config.normalizer = normalizer;
  if (normalizer == "groupnorm") config.normalizer_options = {{"groups", "4"}};
  if (normalizer == "pn") config.normalizer_options = {{"groups", "2"}};
  config.pre_norm = pre_norm;
  return config;
}

inline NamedTensors images_of(const VitConfig& config, std::int64_t count = 3, DType dtype = DType::f64) {
  return {{"images", randn({count, config.image_size, config.image_size, 3}, 7).to(dtype)},
          {"target", random_ids({count}, config.classes, 8)}};
}

inline Vit& vit_of(const FoldedModel& folded) { return dynamic_cast<Vit&>(*folded.model); }

// Weights away from where they began, so that biases and gains matter.
inline void randomize(Vit& model, unsigned seed, double deviation = 0.3) {
  for (Parameter* p : model.parameters()) {
    const bool gain = p->name.find("norm") != std::string::npos && p->name.ends_with("weight");
    p->value.copy_from(randn(p->value.shape(), ++seed, deviation, gain ? 1 : 0).to(p->value.dtype()));
  }
}

}  // namespace foldgrad::testing
