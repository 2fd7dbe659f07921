#include "models/cct/config.h"

#include "engine/check.h"
#include "models/normalizers/normalizer.h"

namespace foldgrad {

CctConfig::CctConfig() {
  width = ffn_width = 128, heads = 2, layers = 4;
  attention_dropout = 0.1;
  pooling = "sequence", initialization = "cct";
}

std::int64_t CctConfig::channels(std::int64_t conv) const {
  if (conv == convs - 1) return width;
  return hybrid() ? width >> (convs - 1 - conv) : 64;
}

std::int64_t CctConfig::side_of_conv(std::int64_t conv) const {
  const std::int64_t side = conv == 0 ? image_size : side_of_pool(conv - 1);
  return (side - 1) / stride() + 1;
}

std::int64_t CctConfig::side_of_pool(std::int64_t conv) const {
  const std::int64_t side = side_of_conv(conv);
  if (!pooled(conv)) return side;
  return hybrid() ? side / 2 : (side - 1) / 2 + 1;
}

std::int64_t CctConfig::tokens() const {
  const std::int64_t side = side_of_pool(convs - 1);
  return side * side + has_cls();
}

std::int64_t CctConfig::smallest_image() const {
  std::int64_t side = 1;
  for (std::int64_t i = 0; i < convs && hybrid(); ++i) side *= stride() * (pooled(i) ? 2 : 1);
  return side;
}

void CctConfig::validate() const {
  FOLDGRAD_CHECK(convs >= 1 && convs <= kMostConvs, "cct: convs must be in [1, {}], got {}", kMostConvs, convs);
  FOLDGRAD_CHECK(kernel == 3 || kernel == 5 || kernel == 7, "cct: kernel must be 3, 5 or 7, got {}", kernel);
  require_choice("cct", "stem", stem, kStems);
  require_choice("cct", "block", block, kBlocks);
  FOLDGRAD_CHECK(!normalizer_info(normalizer).post_norm_only,
                 "cct: normalizer must support pre-norm, got {}, which works only with post-norm", normalizer);
  FOLDGRAD_CHECK(pre_norm,
                 "cct: pre_norm must be on, since the key model.block determines where normalizers are applied");
  TokenModelConfig::validate("cct", kInitializations);
  FOLDGRAD_CHECK(image_size >= smallest_image(), "cct: image_size must be at least {} for {} convolutions, got {}",
                 smallest_image(), convs, image_size);
  FOLDGRAD_CHECK(!hybrid() || width % (std::int64_t(1) << (convs - 1)) == 0,
                 "cct: width must be a multiple of {} for a hybrid stem with {} convolutions, got {}",
                 std::int64_t(1) << (convs - 1), convs, width);
}

}  // namespace foldgrad
