// The sizes and choices of a Swin Transformer (Liu et al.: "Swin Transformer: Hierarchical Vision Transformer using
// Shifted Windows", 2021). The defaults are Swin-T, for images of 224 x 224.
#pragma once
#include <algorithm>

#include "models/images/config.h"

namespace foldgrad {

// width, ffn_width and heads are those of the first stage; each later stage has twice as many of each.
struct SwinConfig : ImageModelConfig {
  std::int64_t patch = 4;                        // pixels on a side; patches do not overlap
  std::int64_t window = 7;                       // tokens on a side of a window
  std::vector<std::int64_t> depths{2, 2, 6, 2};  // layers of each stage
  bool qkv_bias = true;                          // bias of the layers for queries, keys and values
  bool reduction_bias = false;                   // bias of the layers between stages; folding sets it

  static constexpr std::int64_t kMostStages = 8;
  // The largest side of the map, in patches. A model keeps tables for each map, and no parameter's shape confirms their
  // size.
  static constexpr std::int64_t kMostPatches = 512;

  SwinConfig();

  // Stages are counted from 0.
  std::int64_t stages() const { return std::int64_t(depths.size()); }
  std::int64_t layers() const;
  std::int64_t width_of(std::int64_t stage) const { return width << stage; }
  std::int64_t heads_of(std::int64_t stage) const { return heads << stage; }
  std::int64_t side_of(std::int64_t stage) const { return image_size / patch >> stage; }  // the map's side in tokens
  // Return the side of a window in tokens, and the number of tokens by which odd layers shift their windows.
  std::int64_t window_of(std::int64_t stage) const { return std::min(window, side_of(stage)); }
  std::int64_t shift_of(std::int64_t stage) const { return side_of(stage) > window ? window / 2 : 0; }
  // True if the window divides each larger map.
  bool windows_fit() const;
  // Returns a value even for configurations that validate() refuses.
  std::int64_t smallest_image() const { return patch << std::clamp<std::int64_t>(stages() - 1, 0, kMostStages - 1); }

  void validate() const;

  bool operator==(const SwinConfig&) const = default;
};

}  // namespace foldgrad
