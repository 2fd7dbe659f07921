// The sizes and choices of a Compact Convolutional Transformer (Hassani et al.: "Escaping the Big Data Paradigm with
// Compact Transformers", 2021). The defaults are CCT-4/3x2 for images of 32 x 32.
#pragma once
#include "models/images/config.h"

namespace foldgrad {

struct CctConfig : TokenModelConfig {
  std::int64_t convs = 2;   // convolutions between an image and its tokens
  std::int64_t kernel = 3;  // side length in pixels: 3, 5 or 7

  static inline const std::vector<std::string> kInitializations{"cct", "pytorch", "tfixup"};  // models/images/init.cpp

  // "cct": 64 channels in all but the last convolution, and no normalizers. "hybrid": the last convolution has `width`
  // channels, each other one half as many as the next, and a normalizer follows each.
  static inline const std::vector<std::string> kStems{"cct", "hybrid"};
  std::string stem = "cct";
  // "pre": pre-norm. "cct": as published, with a layer's second normalizer on the stream (models/blocks/layers.h).
  static inline const std::vector<std::string> kBlocks{"pre", "cct"};
  std::string block = "pre";

  CctConfig();

  bool hybrid() const { return stem == "hybrid"; }
  // True if convolutions have biases, which a hybrid stem needs for folding its normalizers.
  bool conv_bias() const { return hybrid() && qkv_bias; }
  std::int64_t stride() const { return kernel < 7 ? 1 : 2; }  // stride of a convolution
  std::int64_t padding() const { return kernel / 2; }
  std::int64_t channels(std::int64_t conv) const;
  bool pooled(std::int64_t conv) const { return !hybrid() || conv > 0; }
  // Return the side of the map in pixels after a convolution, and after its pooling.
  std::int64_t side_of_conv(std::int64_t conv) const;
  std::int64_t side_of_pool(std::int64_t conv) const;

  std::int64_t tokens() const;
  std::int64_t smallest_image() const;

  void validate() const;

  bool operator==(const CctConfig&) const = default;
};

}  // namespace foldgrad
