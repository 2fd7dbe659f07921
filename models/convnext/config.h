// The sizes of a ConvNeXt (Liu et al.: "A ConvNet for the 2020s", CVPR 2022). The defaults are ConvNeXt-T with smaller
// patches, for images of 32 x 32. With patch = 4, the model is the published one for images of 224 x 224.
#pragma once
#include <fmt/format.h>

#include <algorithm>

#include "models/images/config.h"

namespace foldgrad {

struct ConvNextConfig : ImageModelConfig {
  std::vector<std::int64_t> channels{96, 192, 384, 768}, depths{3, 3, 9, 3};  // per stage; depths are numbers of blocks
  std::int64_t patch = 2;  // patch size in pixels; patches do not overlap

  static constexpr std::int64_t kMostStages = 16;
  ConvNextConfig() { fc_norm = true; }

  std::int64_t stages() const { return std::int64_t(channels.size()); }
  // Returns the side length of a stage's map. Each stage after the first halves it.
  std::int64_t side(std::int64_t stage) const { return image_size / patch >> stage; }
  // Returns a value even for configurations that validate() refuses.
  std::int64_t smallest_image() const { return patch << std::clamp<std::int64_t>(stages() - 1, 0, kMostStages - 1); }
  void validate() const;
  bool operator==(const ConvNextConfig&) const = default;
};

void visit_keys(KeysOf<ConvNextConfig> auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const Range size = within(1, kMostOfASize);
  needed(m.channels, "channels", "",
         "Number of channels in each stage; every stage after the first halves the feature map", size);
  needed(m.depths, "depths", "", "Number of blocks in each stage", size);
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
