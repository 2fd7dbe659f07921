#include "models/nfnet/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "engine/check.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

NfNetConfig::NfNetConfig() {
  pre_norm = false;  // no normalizer follows the last layer
  normalizer = "none", activation = "gelu_tanh";
  dropout = 0.2, drop_path = 0.25;
}

std::int64_t NfNetConfig::side() const {
  if (padding == "same") return image_size / stem_stride >> stages();
  std::int64_t side = ((image_size - 3) / stem_stride - 6) / 2 + 1;  // after four unpadded 3 x 3 kernels
  for (std::int64_t stage = 1; stage < stages(); ++stage) side = (side + 1) / 2;
  return side;
}

std::int64_t NfNetConfig::smallest_image() const {
  if (padding == "port") return 3 + 6 * stem_stride;
  return stem_stride << std::clamp<std::int64_t>(stages(), 1, kMostStages);
}

void NfNetConfig::validate() const {
  const auto positive = [](const std::vector<std::int64_t>& sizes) {
    return !sizes.empty() && std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size > 0; });
  };
  FOLDGRAD_CHECK(positive(channels) && stages() <= kMostStages,
                 "nfnet: channels must have a positive number for each of at most {} stages, got {}", kMostStages,
                 channels);
  FOLDGRAD_CHECK(
      channels[0] % 16 == 0,
      "nfnet: channels must begin with a multiple of 16, since the stem begins with 1/16 of this number, got {}",
      channels[0]);
  std::int64_t common = 0;
  for (std::int64_t of_stage : channels) {
    FOLDGRAD_CHECK(of_stage % 2 == 0, "nfnet: channels must be even, since blocks halve them, got {}", of_stage);
    common = std::gcd(common, of_stage / 2);
  }
  FOLDGRAD_CHECK(positive(depths) && depths.size() == channels.size(),
                 "nfnet: depths must have a positive number for each of the {} stages in channels, got {}", stages(),
                 depths);
  FOLDGRAD_CHECK(group_size > 0 && common % group_size == 0,
                 "nfnet: group_size must divide {}, the greatest common divisor of half the channels of each stage, "
                 "got {}",
                 common, group_size);
  FOLDGRAD_CHECK(stem_stride == 1 || stem_stride == 2, "nfnet: stem_stride must be 1 or 2, got {}", stem_stride);
  require_choice("nfnet", "padding", padding, kPaddings);
  require_choice("nfnet", "standardization", standardization, kStandardizations);
  require_choice("nfnet", "activation", activation, kActivations);
  require_choice("nfnet", "gate_activation", gate_activation, kGateActivations);
  require_choice("nfnet", "initialization", initialization, kInitializations);
  ImageModelConfig::validate("nfnet");
  if (padding == "same")
    FOLDGRAD_CHECK(image_size % smallest_image() == 0,
                   "nfnet: image_size must be a multiple of stem_stride * 2^stages = {} with padding = same, got {}",
                   smallest_image(), image_size);
  FOLDGRAD_CHECK(image_size >= smallest_image(), "nfnet: image_size must be at least {} with padding = port, got {}",
                 smallest_image(), image_size);
  FOLDGRAD_CHECK(!normalizer_info(normalizer).post_norm_only, "nfnet: normalizer must not require post-norm, got {}",
                 normalizer);
}

}  // namespace foldgrad
