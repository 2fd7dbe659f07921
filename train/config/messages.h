// Messages about a configuration in terms of its keys.
#pragma once
#include "train/config/config.h"

namespace foldgrad {

// Returns a message of the configuration's model or normalizer with members replaced by keys: "vit: heads must divide
// width = 8, got 3" becomes "model.heads must divide model.width = 8, got 3". Returns other messages unchanged.
std::string with_keys(const ExperimentConfig& config, const std::string& message);

}  // namespace foldgrad
