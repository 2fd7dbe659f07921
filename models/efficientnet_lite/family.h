// The configuration of an EfficientNet-Lite0 for experiments and files (models/blocks/keys.h). Its sizes are fixed.
#pragma once
#include "models/efficientnet_lite/efficientnet_lite.h"
#include "models/images/family.h"

namespace foldgrad {

void visit_keys(KeysOf<EfficientNetLiteConfig> auto& m, const auto& v) {
  visit_data_size_keys(m, v);
  v(m.conv_bias, from_data("conv_bias"));
  visit_data_and_normalizer_keys(m, v);
}

inline ExpectedParameters expected_parameters(const EfficientNetLiteConfig& c) {
  return {{"fc.weight", {c.classes, EfficientNetLite::kHeadChannels}}};
}

}  // namespace foldgrad
