// The sizes and choices common to models that classify images. A family's configuration derives from one of these.
#pragma once
#include "models/blocks/config.h"
#include "ops/image_input/image_input.h"

namespace foldgrad {

struct ImageModelConfig : BlockConfig {
  std::int64_t image_size = 32;  // side length in pixels
  std::int64_t classes = 0;
  std::vector<std::string> class_names;  // may be empty
  ImageStatistics pixels;                // normalizes images that consist of bytes [IMG-1]
  bool fc_norm = false;                  // the last normalizer follows the pooling (timm's fc_norm); needs pre_norm

  // Sets the defaults of image models: no dropout, and gelu.
  ImageModelConfig();

  bool operator==(const ImageModelConfig&) const = default;

 protected:
  // Throws std::invalid_argument with the key, the requirement and the value, as a family's validate() does.
  void validate(const char* family) const;
};

// Configuration of models whose layers keep the number of tokens.
struct TokenModelConfig : ImageModelConfig {
  std::int64_t layers = 12;

  // How the head gets one vector from the tokens. "cls": an extra token in front; "mean": the mean over the image's
  // tokens; "sequence": their sum, weighted by a softmax over them.
  static inline const std::vector<std::string> kPoolings{"cls", "mean", "sequence"};
  std::string pooling = "cls";
  bool qkv_bias = false;  // the layers for queries, keys and values have a bias

  std::string initialization = "timm";     // one of the family's kInitializations
  std::string tfixup_scope = "v_out_ffn";  // one of kTfixupScopes
  // Initial values of learned positions: "random" or "sinusoidal"; see init.cpp.
  static inline const std::vector<std::string> kPositions{"random", "sinusoidal"};
  std::string positions = "random";

  bool has_cls() const { return pooling == "cls"; }
  bool operator==(const TokenModelConfig&) const = default;

 protected:
  void validate(const char* family, const std::vector<std::string>& initializations) const;
};

template <class Config>
const Config& validated(const Config& config) {
  config.validate();
  return config;
}

}  // namespace foldgrad
