#include "models/swin/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "engine/check.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {
namespace {

std::vector<std::int64_t> fitting_windows(SwinConfig config) {
  std::vector<std::int64_t> windows;
  for (config.window = 1; config.window <= config.side_of(0); ++config.window)
    if (config.windows_fit()) windows.push_back(config.window);
  return windows;
}

}  // namespace

SwinConfig::SwinConfig() {
  image_size = 224;
  width = 96, ffn_width = 384, heads = 3;
}

std::int64_t SwinConfig::layers() const { return std::accumulate(depths.begin(), depths.end(), std::int64_t(0)); }

bool SwinConfig::windows_fit() const {
  for (std::int64_t s = 0; s < std::min(stages(), kMostStages); ++s)
    if (side_of(s) % window_of(s) != 0) return false;
  return true;
}

void SwinConfig::validate() const {
  require_positive("swin", {{"patch", patch}, {"window", window}});
  FOLDGRAD_CHECK(!depths.empty() && stages() <= kMostStages && std::ranges::min(depths) >= 1,
                 "swin: depths must have 1 to {} numbers, each at least 1, got {}", kMostStages, depths);
  FOLDGRAD_CHECK(!normalizer_info(normalizer).post_norm_only,
                 "swin: normalizer must support pre-norm, got {}, which works only with post-norm", normalizer);
  FOLDGRAD_CHECK(pre_norm, "swin: pre_norm must be on");
  ImageModelConfig::validate("swin");
  FOLDGRAD_CHECK(!weight_standardization, "swin: weight_standardization must be off");
  FOLDGRAD_CHECK(image_size % smallest_image() == 0,
                 "swin: image_size must be a multiple of patch * 2^(stages - 1) = {}, got {}", smallest_image(),
                 image_size);
  FOLDGRAD_CHECK(side_of(0) <= kMostPatches, "swin: image_size must be at most {} patches of size {}, got {}",
                 kMostPatches, patch, image_size);
  FOLDGRAD_CHECK(windows_fit(),
                 "swin: window must divide the size of every feature map larger than the window; {} would fit, got {}",
                 fmt::join(fitting_windows(*this), ", "), window);
}

}  // namespace foldgrad
