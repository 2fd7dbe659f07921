// Keys that families share, in [model] and [norm] of a configuration and in config.json. Each family's config.h defines
//
//   void visit_keys(KeysOf<Config> auto& config, const auto& visitor);  // visitor(member, ConfigKey) for every key
//   Config smallest(Config config);
//   ExpectedParameters expected_parameters(const Config& config);
//
// smallest() reduces a configuration to one layer and to the smallest sizes that data can have, and throws
// std::invalid_argument if no such sizes are valid. expected_parameters() returns the names and shapes of some
// parameters, including the largest. If a file lacks one of these parameters, the sizes in config.json are wrong, and
// loading fails before the model is allocated. The configuration's validate() throws std::invalid_argument for an
// invalid value; the message names the key, the requirement and the value.
#pragma once
#include <utility>
#include <vector>

#include "engine/shape.h"
#include "models/options/key.h"

namespace foldgrad {

using ExpectedParameters = std::vector<std::pair<std::string, Shape>>;

// The largest number of positions. Their table is not a parameter, so no tensor in the file confirms its size.
constexpr std::int64_t kMostPositions = 1'000'000;

// Each function calls visitor(member, ConfigKey) for some of a family's keys.
void visit_size_keys(auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  const Range size = within(1, kMostOfASize);
  needed(m.width, "width", "channels", "Hidden size of embeddings and sublayers", within(4, kMostOfASize));
  needed(m.ffn_width, "ffn_width", "channels", "Hidden size inside feed-forward blocks", size);
  needed(m.heads, "heads", "", "Number of attention heads; must divide the width", size);
}

void visit_normalizer_key(auto& m, const auto& v) {
  keys_in("norm", v, required)(m.normalizer, "name", "",
                               "Normalizer to use at every site; `foldgrad norms` lists the available ones");
}

void visit_layer_keys(auto& m, const auto& v) {
  const auto needed = keys_in("model", v, required);
  needed(m.pre_norm, "pre_norm", "", "Normalize before each sublayer (true) or after each residual sum (false)");
  needed(m.activation, "activation", "Activation of feed-forward blocks", m.activation_names());
}

void visit_dropout_keys(auto& m, const auto& v) {
  const auto model = keys_in("model", v);
  model(m.dropout, "dropout", "", "Dropout rate for embeddings and sublayer outputs", kFraction);
  model(m.attention_dropout, "attention_dropout", "", "Dropout rate for attention probabilities", kFraction);
  model(m.activation_dropout, "activation_dropout", "", "Dropout rate after the activation in feed-forward blocks",
        kFraction);
}

}  // namespace foldgrad
