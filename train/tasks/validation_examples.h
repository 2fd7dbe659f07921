// The examples that a run validates on, for analyses that compare what models compute for them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/model.h"
#include "train/config/config.h"

namespace foldgrad {

struct ValidationExamples {
  std::int64_t size = 0;
  // Returns the inputs of the examples with these numbers, all below `size`; on the CPU.
  std::function<NamedTensors(const std::vector<std::int64_t>&)> inputs;
  // SHA-256 of the examples named as the data have them, whatever a model makes of them.
  std::function<std::string(const std::vector<std::int64_t>&)> digest;
  // Which of the inputs is the mask [examples, T] of the positions that a layer has. Null: all examples have the same
  // positions.
  std::function<std::string(const std::string& layer)> mask = nullptr;
};

// For the table of families (families.h). `model_directory` has the vocabulary. Throw FileError, ConfigError and
// std::invalid_argument.
ValidationExamples translation_examples(const Model& model, const ExperimentConfig& config,
                                        const std::string& data_directory, const std::string& model_directory);
ValidationExamples image_examples(const Model& model, const ExperimentConfig& config, const std::string& data_directory,
                                  const std::string& model_directory);

}  // namespace foldgrad
