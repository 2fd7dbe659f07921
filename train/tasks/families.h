// The functions of a task that commands and runs call, for any model. Families whose models learn the same task share
// its TaskKind.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "models/transformer/beam_search.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/checks/model_checks.h"
#include "train/config/config.h"
#include "train/config/config_json.h"
#include "train/loop/task.h"

namespace foldgrad {

// The data that a command uses with a model: text files, or a split of a configuration's data.
struct ModelData {
  std::string source = {}, reference = {};  // files, below data_directory if that is given; give both or neither
  std::string split = {};                   // "train", "valid", "test", or the name of another pair of text files
  std::string data_directory = {};          // the root for data.directory; if empty, the default root
  std::string config = {};                  // path of the configuration; empty if the model does not belong to a run
  std::string model = {};                   // path of the model as given by the user
  std::string directory = {};               // the model's directory, which contains its vocabulary

  // Throws std::invalid_argument if there is no configuration, or if it is for a different family than the model.
  ExperimentConfig read_config(const Model& model) const;
  std::string data_root(const ExperimentConfig& config) const;
};

struct EvaluationOptions {
  DecodingOptions decoding = {};
  std::int64_t max_tokens = 4096;  // largest number of tokens in a batch
  std::string hypotheses = {};     // path for the translations; if empty, none are written
  NonFinite non_finite = NonFinite::refuse;
  Communicator* communicator = nullptr;  // connects the ranks that share the work; null if this process does it all
};
struct Evaluation {
  std::string text;
  nlohmann::ordered_json json;
};

// A numbered set of examples on which models are compared.
struct ExampleSet {
  std::int64_t size = 0;
  // Returns the inputs of the examples with these numbers, on the CPU. Each number must be below `size`.
  std::function<NamedTensors(const std::vector<std::int64_t>&)> inputs;
  // Returns the SHA-256 of the raw examples. Needed if models make different inputs from the same examples. If null,
  // the digest of the inputs is used.
  std::function<std::string(const std::vector<std::int64_t>&)> digest = nullptr;
  // Returns the name of the input that holds each example's number of rows in `layer`. Null if all examples have the
  // same number of rows.
  std::function<std::string(const std::string& layer)> lengths = nullptr;
};

// Inputs of training, batch after batch.
struct TrainingInputs {
  std::int64_t per_epoch;  // number of batches per epoch; 0 if there are no epochs
  std::function<NamedTensors()> next;
};

// A task, shared by all models that learn it. Training and validation are in its Task (train/loop/task.h).
struct TaskKind {
  // Returns the task's keys with their defaults. The default of data.directory is the directory of the task's files, if
  // the task has files. The struct may have validate(), which throws ConfigError for faults that can be found before
  // the data is read.
  Section (*keys)();
  // Reads the data, sets the sizes of the model that depend on the data, and makes the task with a new_model().
  // Keeps the vocabulary in `earlier`, the model directory from which training resumes or starts, unless `earlier` is
  // empty. Throws FileError, ConfigError and std::invalid_argument.
  std::unique_ptr<Task> (*make)(ExperimentConfig config, const std::string& data_directory, const std::string& earlier,
                                Device device);

  // Runs the family's additional checks (FamilyChecks in train/checks/model_checks.h).
  std::vector<CheckResult> (*checks)(Model& model, Model& folded, const NamedTensors& inputs);
  // Reads the inputs of `foldgrad run` from a file, onto the CPU. Throws FileError if they do not fit the model.
  NamedTensors (*read_inputs)(const Model& model, const std::string& path);
  // Returns the results by name, including "logits". If null, the only result is "logits" [examples, classes].
  NamedTensors (*results)(Model& model, const NamedTensors& inputs, const ForwardPass& pass) = nullptr;
  // Functions for commands that work on data. A function is null if the task does not support its command. All throw
  // FileError, ConfigError, CheckpointError, NonFiniteError and std::invalid_argument.
  Evaluation (*evaluate)(Model& model, const ModelData& data, const EvaluationOptions& options) = nullptr;
  ExampleSet (*examples)(const Model& model, const ModelData& data) = nullptr;
  // Returns training inputs. If null, commands use the inputs on which the configuration's task trains.
  TrainingInputs (*training_inputs)(const Model& model, const ModelData& data, std::int64_t max_tokens,
                                    std::uint64_t seed) = nullptr;
  // Describes the vocabulary in a model's directory, for `foldgrad inspect`.
  nlohmann::ordered_json (*vocabulary)(const Model& model, const std::string& directory) = nullptr;
};

// Returns the family of the models M. The functions of models/blocks/keys.h must exist for the type of M::config().
template <class M>
Family make_family(const char* name, const TaskKind& task) {
  using Config = std::remove_cvref_t<decltype(std::declval<const M&>().config())>;
  return {.name = name,
          .task = &task,
          .model = Section::of(Config()),
          .data = task.keys(),
          .to_json = [](const Model& model) { return config_json(static_cast<const M&>(model).config()); },
          .from_json = [](const nlohmann::json& config) { return Section::of(parse_config_json<Config>(config)); },
          .make = [](const Section& model, std::optional<std::uint64_t> seed, DType dtype, Device device)
              -> std::unique_ptr<Model> { return std::make_unique<M>(model.as<Config>(), seed, dtype, device); },
          .smallest = [](const Section& model) { return Section::of(smallest(model.as<Config>())); },
          .expected_parameters = [](const Section& model) { return expected_parameters(model.as<Config>()); }};
}

// Makes the model of a configuration, initialized by train.seed. Throws ConfigError.
std::unique_ptr<Model> new_model(const ExperimentConfig& config, Device device);

// Makes the task of a configuration's run (see TaskKind::make).
std::unique_ptr<Task> make_task(const ExperimentConfig& config, const std::string& data_directory,
                                const std::string& earlier, Device device);
// Call the functions of the model's task. They throw std::invalid_argument if the task lacks the function.
Evaluation evaluate(Model& model, const ModelData& data, const EvaluationOptions& options);
ExampleSet examples_of(const Model& model, const ModelData& data);
TrainingInputs training_inputs(const Model& model, const ModelData& data, std::int64_t max_tokens, std::uint64_t seed);

// Returns the tensor `t` of a file as i64 ids. Throws FileError unless it is i64 or i32 [rows, tokens] with at most
// `most` tokens in a row, each in [0, vocabulary). `form` describes this shape in the message.
Tensor checked_ids(const std::string& path, const std::string& name, const Tensor& t, const std::string& form,
                   std::int64_t most, std::int64_t vocabulary);

// Makes the smallest model of the configuration (models/blocks/keys.h). Throws std::invalid_argument or ConfigError for
// faults that can be found before the data is read.
std::unique_ptr<Model> smallest_model(const ExperimentConfig& config);

// Returns the content of config.json in a model directory.
nlohmann::ordered_json model_json(const Model& model);
// Returns the family that the content of a config.json names, after checking its format and version. Throws
// std::invalid_argument.
const Family& family_of(const nlohmann::json& config);

}  // namespace foldgrad
