// The configuration whose data a command works on with a model.
#pragma once
#include <string>

#include "models/model.h"
#include "train/config/config.h"

namespace CLI {
class App;
}

namespace foldgrad {

// --config.
void add_model_config_option(CLI::App& command, std::string& config);

// The file `config`, or where that is empty the configuration of the run that the model at `path` belongs to. Throws
// std::invalid_argument when it belongs to none, and for a configuration of another family.
ExperimentConfig read_model_config(const Model& model, const std::string& path, const std::string& config);

}  // namespace foldgrad
