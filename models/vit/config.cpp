#include "models/vit/config.h"

#include <cmath>
#include <utility>

#include "engine/check.h"

namespace foldgrad {

VitConfig::VitConfig() {
  width = 384, ffn_width = 1536, heads = 6;
  dropout = attention_dropout = activation_dropout = 0;
  activation = "gelu";
}

void VitConfig::validate() const {
  using Count = std::pair<const char*, std::int64_t>;
  for (const auto& [key, value] :
       {Count{"image_size", image_size}, {"patch", patch}, {"layers", layers}, {"classes", classes}})
    FOLDGRAD_CHECK(value >= 1, "vit: {} must be at least 1, got {}", key, value);
  FOLDGRAD_CHECK(image_size % patch == 0, "vit: patch must divide image_size = {}, got {}", image_size, patch);
  FOLDGRAD_CHECK(class_names.empty() || std::int64_t(class_names.size()) == classes,
                 "vit: class_names must have {} names or none, got {}", classes, class_names.size());
  for (double mean : pixels.mean) FOLDGRAD_CHECK(std::isfinite(mean), "vit: image_mean must be finite, got {}", mean);
  for (double std : pixels.std)
    FOLDGRAD_CHECK(std::isfinite(std) && std > 0, "vit: image_std must be above 0 and finite, got {}", std);
  BlockConfig::validate("vit");
  require_choice("vit", "pooling", pooling, {"cls", "mean"});
  require_choice("vit", "initialization", initialization, {"timm", "pytorch", "tfixup"});
  require_choice("vit", "tfixup_scope", tfixup_scope, {"v_out_ffn", "all"});
}

}  // namespace foldgrad
