// The sizes and choices of a vision Transformer (Dosovitskiy et al., 2021). The defaults are ViT-S with patches of 4 x
// 4 for images of 32 x 32.
#pragma once
#include "models/blocks/config.h"
#include "ops/image_input/image_input.h"

namespace foldgrad {

struct VitConfig : BlockConfig {
  std::int64_t image_size = 32, patch = 4;  // pixels on a side; patches lie side by side
  std::int64_t layers = 12;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // or none
  ImageStatistics pixels;                // what images of bytes are normalized by [IMG-1]

  // What the classes are read from: "cls", a token of its own in front, or "mean", over the tokens of all patches.
  std::string pooling = "cls";
  bool qkv_bias = false;  // of the layer that makes queries, keys and values

  // "timm", "pytorch" or "tfixup", see init.h.
  std::string initialization = "timm";
  // What tfixup scales: "v_out_ffn" as published, or "all" for queries and keys too.
  std::string tfixup_scope = "v_out_ffn";

  VitConfig();

  bool has_cls() const { return pooling == "cls"; }
  std::int64_t tokens() const { return (image_size / patch) * (image_size / patch) + has_cls(); }

  // Throws std::invalid_argument that names the key, what it must be and what it is.
  void validate() const;

  bool operator==(const VitConfig&) const = default;
};

}  // namespace foldgrad
