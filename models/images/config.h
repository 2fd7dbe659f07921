// The sizes and choices that models which classify images share. The configuration of such a family begins with them.
#pragma once
#include "models/blocks/config.h"
#include "ops/image_input/image_input.h"

namespace foldgrad {

struct ImageModelConfig : BlockConfig {
  std::int64_t image_size = 32;  // pixels on a side
  std::int64_t layers = 12;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // or none
  ImageStatistics pixels;                // what images of bytes are normalized by [IMG-1]

  // Source of the classes: "cls", a token of its own in front; "mean", over the tokens of the image; or
  // "sequence", their sum with weights that a softmax over them gives.
  static inline const std::vector<std::string> kPoolings{"cls", "mean", "sequence"};
  std::string pooling = "cls";
  bool qkv_bias = false;  // bias of the layer that makes queries, keys and values

  std::string initialization = "timm";     // one of the family's kInitializations
  std::string tfixup_scope = "v_out_ffn";  // one of kTfixupScopes
  // Initial values of learned positions: "random" numbers, or "sinusoidal", see init.cpp.
  static inline const std::vector<std::string> kPositions{"random", "sinusoidal"};
  std::string positions = "random";

  // Sets the defaults of these models: no dropout, and gelu.
  ImageModelConfig();

  bool has_cls() const { return pooling == "cls"; }
  bool operator==(const ImageModelConfig&) const = default;

 protected:
  // Throws std::invalid_argument that names the key, what it must be and what it is.
  void validate(const char* family, const std::vector<std::string>& initializations) const;
};

template <class Config>
const Config& validated(const Config& config) {
  config.validate();
  return config;
}

}  // namespace foldgrad
