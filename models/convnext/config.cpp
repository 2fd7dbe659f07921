#include "models/convnext/config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/check.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

void ConvNextConfig::validate() const {
  const auto positive = [](const std::vector<std::int64_t>& sizes) {
    return !sizes.empty() && std::ranges::all_of(sizes, [](std::int64_t size) { return size > 0; });
  };
  FOLDGRAD_CHECK(positive(channels), "convnext: channels must have a positive number for each stage, got {}", channels);
  FOLDGRAD_CHECK(positive(depths) && depths.size() == channels.size(),
                 "convnext: depths must have a positive number for each of the {} stages in channels, got {}", stages(),
                 depths);
  require_positive("convnext", {{"patch", patch}});
  FOLDGRAD_CHECK(stages() <= kMostStages, "convnext: channels must have at most {} stages, got {}", kMostStages,
                 stages());
  FOLDGRAD_CHECK(image_size % smallest_image() == 0,
                 "convnext: image_size must be a multiple of patch * 2^(stages - 1) = {}, got {}", smallest_image(),
                 image_size);
  FOLDGRAD_CHECK(!normalizer_info(normalizer).post_norm_only,
                 "convnext: normalizer must support pre-norm, got {}, which works only with post-norm", normalizer);
  ImageModelConfig::validate("convnext");
}

}  // namespace foldgrad
