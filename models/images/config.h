// The sizes, choices and keys common to models that classify images. A family's configuration derives from
// ImageModelConfig or TokenModelConfig.
#pragma once
#include <concepts>

#include "models/blocks/config.h"
#include "models/blocks/keys.h"
#include "ops/image_input/image_input.h"

namespace foldgrad {

constexpr std::int64_t kImageChannels = 3;

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
  // Throws std::invalid_argument if a value is invalid, with a message that begins like the messages of a family's
  // validate().
  void validate(const char* family) const;
};

// Configuration of models whose layers keep the number of tokens.
struct TokenModelConfig : ImageModelConfig {
  std::int64_t layers = 12;

  // How the head reduces the tokens to one vector. "cls": an extra token in front; "mean": the mean over the image's
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

// Visit keys that all families of image classifiers share.
void visit_data_size_keys(auto& m, const auto& v) {
  v(m.image_size, required(from_data("image_size")));
  v(m.classes, required(from_data("classes")));
}

void visit_drop_path_key(auto& m, const auto& v) {
  keys_in("model", v)(m.drop_path, "drop_path", "",
                      "Stochastic depth: the probability that the last layer skips a sublayer for an image; the "
                      "probability rises linearly from 0 in the first layer",
                      kFraction);
}

void visit_data_and_normalizer_keys(auto& m, const auto& v) {
  v(m.class_names, from_data("class_names"));
  v(m.pixels.mean, from_data("image_mean"));
  v(m.pixels.std, from_data("image_std"));
  visit_normalizer_key(m, v);
}

// Visit the keys that families derived from TokenModelConfig share. A family calls the first function before it visits
// its own keys, and the second one after that.
void visit_image_size_keys(auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  visit_data_size_keys(m, v);
  visit_size_keys(m, v);
  needed(m.layers, "layers", "", "Layers", within(1, kMostOfASize));
  needed(m.pooling, "pooling",
         "Input to the classifier: a class token, the mean of all tokens, or a learned weighted sum of all tokens",
         m.kPoolings);
}

void visit_image_training_keys(auto& m, const auto& v) {
  const auto model = keys_in("model", v);
  visit_dropout_keys(m, v);
  visit_drop_path_key(m, v);
  model(m.weight_standardization, "weight_standardization", "",
        "Standardize the weights of linear layers and learn a gain for each row");
  keys_in("model", v, newer)(m.standardization_scope, "standardization_scope",
                             "Which weights weight_standardization applies to", kStandardizationScopes);
  model(m.initialization, "initialization", "Initial weights", m.kInitializations);
  model(m.tfixup_scope, "tfixup_scope", "Which weights tfixup scales", kTfixupScopes);
  model(m.positions, "positions",
        "Initial values of the learned position embeddings: random numbers, or sines and cosines of row and column",
        m.kPositions);
  visit_data_and_normalizer_keys(m, v);
}

// Families that need other settings in their smallest configuration overload this function.
template <std::derived_from<ImageModelConfig> Config>
Config smallest(Config config) {
  config.image_size = config.smallest_image(), config.classes = 2;
  config.validate();
  if constexpr (std::derived_from<Config, TokenModelConfig>) config.layers = 1;
  if constexpr (requires { config.depths; }) config.depths.assign(config.depths.size(), 1);
  return config;
}

}  // namespace foldgrad
