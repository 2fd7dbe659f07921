// The families of models: what is particular to each, in one row. Whoever works with any model asks its row; a family
// is a folder below models/, a task, and a row here.
#pragma once
#include <nlohmann/json.hpp>

#include "train/checks/check_result.h"
#include "train/config/config.h"
#include "train/loop/task.h"
#include "train/tasks/validation_examples.h"

namespace foldgrad {

struct Family {
  std::string name;  // model.family of a configuration, and Model::family()

  // The model of config.json, behind its format: docs/model_directory.md. The values are not set. make_model is strict:
  // it throws std::invalid_argument for what is missing, unknown or out of range.
  nlohmann::ordered_json (*config_json)(const Model& model);
  std::unique_ptr<Model> (*make_model)(const nlohmann::json& config, DType dtype, Device device);
  // Some parameters, the largest among them, with their shapes: a file that lacks them does not bear out the sizes of
  // `config`, which is then found before memory is taken for them. Throws as make_model does.
  std::vector<std::pair<std::string, Shape>> (*expected_parameters)(const nlohmann::json& config);

  // Checks beside those of every model, see FamilyChecks (train/checks/model_checks.h).
  std::vector<CheckResult> (*checks)(Model& model, Model& folded, const NamedTensors& inputs);
  // For `foldgrad run`: the inputs that a file holds, on the host, and results by name, "logits" among them.
  // read_inputs throws FileError for what the model does not take.
  NamedTensors (*read_inputs)(const Model& model, const std::string& path);
  NamedTensors (*results)(Model& model, const NamedTensors& inputs, const ForwardPass& pass);
  // What `foldgrad eval` tells on a split, "train", "valid" or "test", of the data that a configuration names. Null: of
  // this family the command knows more itself, or nothing. Throws FileError, ConfigError and std::invalid_argument.
  Validation (*evaluate)(Model& model, const ExperimentConfig& config, const std::string& data_directory,
                         const std::string& split) = nullptr;
  // What its runs validate on, for analyses. Null: nothing.
  ValidationExamples (*validation_examples)(const Model& model, const ExperimentConfig& config,
                                            const std::string& data_directory,
                                            const std::string& model_directory) = nullptr;
  // As ONNX into a directory; returns the names of the graphs' files.
  std::vector<std::string> (*write_onnx)(Model& model, const std::string& directory);

  // A small model of the configuration. Throws std::invalid_argument or ConfigError for what can be known to be wrong
  // before the data is read.
  std::unique_ptr<Model> (*smallest_model)(const ExperimentConfig& config);
  // What a run trains, with a new model. `earlier`: the model directory of a run that goes on, whose vocabulary stays;
  // empty when it begins. Throws FileError, ConfigError and std::invalid_argument.
  std::unique_ptr<Task> (*make_task)(const ExperimentConfig& config, const std::string& data_directory,
                                     const std::string& earlier, Device device);
};

// Throws std::invalid_argument for a name that does not exist, naming the nearest and all that there are.
const Family& family(const std::string& name);
inline const Family& family_of(const Model& model) { return family(model.family()); }

// config.json of a model directory.
nlohmann::ordered_json model_json(const Model& model);
// The row for what a file says, its format and version checked. Throws std::invalid_argument.
const Family& family_of(const nlohmann::json& config);

// Adds a row. Call it at the start of the program, from one thread. Throws std::invalid_argument for a name that is
// taken.
void register_family(Family family);

}  // namespace foldgrad
