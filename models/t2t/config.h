// The sizes and choices of a Tokens-to-Token vision Transformer (Yuan et al.: "Tokens-to-Token ViT", ICCV 2021). The
// defaults are T2T-ViT-14 with unfolds for 32 x 32 images; the published unfolds, for 224 x 224, are {7, 3, 3}, {4, 2,
// 2}, {2, 1, 1}.
#pragma once
#include "models/images/config.h"

namespace foldgrad {

struct T2tConfig : TokenModelConfig {
  static constexpr std::size_t kUnfolds = 3;     // a token module follows each unfold except the last
  static constexpr std::int64_t kMostSide = 64;  // largest kernel side and largest stride

  static inline const std::vector<std::string> kInitializations{"t2t"};  // see t2t.h

  // The side of the kernel, the stride and the padding of each unfold, in pixels of its map.
  std::vector<std::int64_t> kernels{3, 3, 3}, strides{1, 2, 2}, paddings{1, 1, 1};
  std::int64_t token_width = 64;  // number of channels in the results of the token modules
  // The attention of token modules: by random features, or by a softmax.
  static inline const std::vector<std::string> kTokenAttentions{"performer", "softmax"};
  std::string token_attention = "performer";
  double token_dropout = 0.1;  // applied to both branches of a token module; the authors' softmax form has none

  T2tConfig();

  bool has_performers() const { return token_attention == "performer"; }
  std::int64_t features() const { return token_width / 2; }
  // Returns the side of the map in pixels after the first `unfolds` unfolds.
  std::int64_t side(std::size_t unfolds) const;
  // Returns how many numbers are in each patch that an unfold cuts out.
  std::int64_t patch_size(std::size_t unfold) const;
  std::int64_t tokens() const { return side(kUnfolds) * side(kUnfolds) + has_cls(); }

  // Both throw std::invalid_argument with the key, the requirement and the value.
  std::int64_t smallest_image() const;
  void validate() const;

  bool operator==(const T2tConfig&) const = default;

 private:
  void validate_unfolds() const;
};

}  // namespace foldgrad
