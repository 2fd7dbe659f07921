#include "models/t2t/config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "engine/check.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

T2tConfig::T2tConfig() {
  width = 384, ffn_width = 1152, heads = 6, layers = 14;
  initialization = "t2t";
}

std::int64_t T2tConfig::side(std::size_t unfolds) const {
  std::int64_t side = image_size;
  for (std::size_t i = 0; i < unfolds; ++i) side = (side + 2 * paddings[i] - kernels[i]) / strides[i] + 1;
  return side;
}

std::int64_t T2tConfig::patch_size(std::size_t unfold) const {
  return (unfold == 0 ? kImageChannels : token_width) * kernels[unfold] * kernels[unfold];
}

std::int64_t T2tConfig::smallest_image() const {
  const auto require = [](const char* key, const std::vector<std::int64_t>& values, std::int64_t least) {
    const bool fit = std::ranges::all_of(values, [&](std::int64_t v) { return v >= least && v <= kMostSide; });
    FOLDGRAD_CHECK(values.size() == kUnfolds && fit, "t2t: {} must have {} integers in [{}, {}], got {}", key, kUnfolds,
                   least, kMostSide, values);
  };
  require("kernels", kernels, 1);
  require("strides", strides, 1);
  require("paddings", paddings, 0);
  for (std::size_t i = 0; i < kUnfolds; ++i)
    FOLDGRAD_CHECK(paddings[i] < kernels[i], "t2t: paddings must be below kernels = {}, got {}", kernels, paddings);
  std::int64_t side = 1;
  for (std::size_t i = kUnfolds; i-- > 0;)
    side = std::max<std::int64_t>((side - 1) * strides[i] + kernels[i] - 2 * paddings[i], 1);
  return side;
}

void T2tConfig::validate() const {
  const std::int64_t smallest = smallest_image();
  FOLDGRAD_CHECK(image_size >= smallest,
                 "t2t: image_size must be at least {} for kernels {}, strides {} and paddings {}, got {}", smallest,
                 kernels, strides, paddings, image_size);
  require_choice("t2t", "token_attention", token_attention, kTokenAttentions);
  FOLDGRAD_CHECK(token_width >= 2 && token_width % 2 == 0 && token_width <= 4096,
                 "t2t: token_width must be even and in [2, 4096], got {}", token_width);
  FOLDGRAD_CHECK(has_performers() || token_width <= 128,
                 "t2t: token_width must be at most 128 with token_attention = softmax, got {}", token_width);
  FOLDGRAD_CHECK(token_dropout >= 0 && token_dropout < 1, "t2t: token_dropout must be in [0, 1), got {}",
                 token_dropout);
  FOLDGRAD_CHECK(!normalizer_info(normalizer).post_norm_only,
                 "t2t: normalizer must support pre-norm, got {}, which works only with post-norm", normalizer);
  FOLDGRAD_CHECK(pre_norm, "t2t: pre_norm must be on; the published layers are pre-norm");
  FOLDGRAD_CHECK(!weight_standardization, "t2t: weight_standardization must be off; token modules do not support it");
  TokenModelConfig::validate("t2t", kInitializations);
}

}  // namespace foldgrad
