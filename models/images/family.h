// The configuration keys of image classifiers, and their smallest configuration (models/blocks/keys.h). A family that
// needs a different one overloads smallest().
#pragma once
#include <concepts>

#include "models/blocks/keys.h"
#include "models/images/model.h"

namespace foldgrad {

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

// Visit the keys that families derived from TokenModelConfig share. The first function is called before a family's own
// keys are visited, the second one after.
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

template <std::derived_from<ImageModelConfig> Config>
Config smallest(Config config) {
  config.image_size = config.smallest_image(), config.classes = 2;
  config.validate();
  if constexpr (std::derived_from<Config, TokenModelConfig>) config.layers = 1;
  if constexpr (requires { config.depths; }) config.depths.assign(config.depths.size(), 1);
  return config;
}

}  // namespace foldgrad
