// Messages about a configuration, in the words of its keys.
#pragma once
#include "train/config/config.h"

namespace foldgrad {

// Returns a message of the configuration's model or normalizer with the keys of what it names: "vit: heads must divide
// width = 8, got 3" becomes "model.heads must divide model.width = 8, got 3". Other messages stay as they are.
std::string with_keys(const ExperimentConfig& config, const std::string& message);

}  // namespace foldgrad
