#include "train/commands/model_config.h"

#include <CLI/CLI.hpp>

#include "engine/check.h"
#include "train/checkpoints/model_directory.h"

namespace foldgrad {

void add_model_config_option(CLI::App& command, std::string& config) {
  command.add_option(
      "--config", config,
      "Of a model of images: configuration that names them; default: that of the run that MODEL belongs to");
}

ExperimentConfig read_model_config(const Model& model, const std::string& path, const std::string& config) {
  const std::string file = config.empty() ? find_run_config(path) : config;
  FOLDGRAD_CHECK(!file.empty(), "{} belongs to no run: --config must name a configuration", path);
  ExperimentConfig read = read_config(file);
  FOLDGRAD_CHECK(read.family == model.family(), "{}: model.family must be \"{}\", that of the model, got \"{}\"", file,
                 model.family(), read.family);
  return read;
}

}  // namespace foldgrad
