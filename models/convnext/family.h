// The configuration of a ConvNeXt for experiments and files (models/blocks/keys.h).
#pragma once
#include <fmt/format.h>

#include "models/convnext/config.h"
#include "models/images/family.h"

namespace foldgrad {

void visit_keys(KeysOf<ConvNextConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const Range size = within(1, kMostOfASize);
  needed(m.channels, "channels", "",
         "Number of channels in each stage; every stage after the first halves the feature map", size);
  needed(m.depths, "depths", "", "Blocks of each stage", size);
  needed(m.patch, "patch", "pixels", "Patch size of the stem; patch * 2^(stages - 1) must divide the image size", size);
  visit_data_size_keys(m, v);
  visit_drop_path_key(m, v);
  visit_data_and_normalizer_keys(m, v);
}

inline ExpectedParameters expected_parameters(const ConvNextConfig& c) {
  ExpectedParameters all{{"stem.0.weight", {c.channels[0], kImageChannels, c.patch, c.patch}},
                         {"head.fc.weight", {c.classes, c.channels.back()}}};
  for (std::size_t stage = 0; stage < c.channels.size(); ++stage)
    all.push_back({fmt::format("stages.{}.blocks.{}.mlp.fc1.weight", stage, c.depths[stage] - 1),
                   {4 * c.channels[stage], c.channels[stage]}});
  return all;
}

}  // namespace foldgrad
