// The sizes and choices of a vision Transformer (Dosovitskiy et al., 2021). The defaults are ViT-S with 4 x 4 patches,
// for 32 x 32 images.
#pragma once
#include "models/images/config.h"

namespace foldgrad {

struct VitConfig : TokenModelConfig {
  static inline const std::vector<std::string> kInitializations{"timm", "pytorch", "tfixup"};  // models/images/init.cpp

  std::int64_t patch = 4;  // side length in pixels; patches do not overlap

  VitConfig();

  std::int64_t tokens() const { return (image_size / patch) * (image_size / patch) + has_cls(); }
  std::int64_t smallest_image() const { return patch; }

  void validate() const;

  bool operator==(const VitConfig&) const = default;
};

}  // namespace foldgrad
