#include "models/vit/config.h"

#include "engine/check.h"

namespace foldgrad {

VitConfig::VitConfig() { width = 384, ffn_width = 1536, heads = 6; }

void VitConfig::validate() const {
  ImageModelConfig::validate("vit", kInitializations);
  FOLDGRAD_CHECK(patch >= 1 && image_size % patch == 0, "vit: patch must divide image_size = {}, got {}", image_size,
                 patch);
}

}  // namespace foldgrad
