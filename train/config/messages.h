// Messages that name the keys of a configuration.
#pragma once
#include "train/config/config.h"

namespace foldgrad {

// Returns a message from the configuration's model or normalizer with the names of members replaced by keys: "vit:
// heads must divide width = 8, got 3" becomes "model.heads must divide model.width = 8, got 3". Returns other messages
// unchanged.
std::string with_keys(const ExperimentConfig& config, const std::string& message);

}  // namespace foldgrad
