// The families of models. A row of models names a row of tasks; models that learn the same task share its row. Commands
// that work with any model call the functions in these rows.
#pragma once
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>

#include "models/images/config.h"
#include "models/transformer/beam_search.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"
#include "train/checks/model_checks.h"
#include "train/config/config.h"
#include "train/loop/task.h"

namespace foldgrad {

// Sizes that the data decide. A model uses those for which it has members.
struct DataSizes {
  std::int64_t source_vocabulary = 0, target_vocabulary = 0;
  std::int64_t image_size = 0;  // pixels on a side
  std::vector<std::string> classes = {};
  ImageStatistics pixels = {};
};

using NewModel = std::function<std::unique_ptr<Model>(const DataSizes&)>;

// The data that a command uses with a model: files of text, or a split of a configuration's data.
struct ModelData {
  std::string source = {}, reference = {};  // the files, below data_directory if that is given; both or neither
  std::string split = {};                   // "train", "valid", "test", or another pair of files of text
  std::string data_directory = {};          // root of data.directory; empty: the default
  std::string config = {};                  // file of the configuration; empty: the model does not belong to a run
  std::string model = {};                   // path of the model as given by the user
  std::string directory = {};               // its directory, which has its vocabulary

  // Throws std::invalid_argument without a configuration, and for one of another family.
  ExperimentConfig read_config(const Model& model) const;
  std::string data_root(const ExperimentConfig& config) const;
};

struct EvaluationOptions {
  DecodingOptions decoding = {};
  std::int64_t max_tokens = 4096;  // of a batch
  std::string hypotheses = {};     // file for the translations; empty: none
  NonFinite non_finite = NonFinite::refuse;
  Communicator* communicator = nullptr;  // of the ranks that share the work; null if this process does it all
};
struct Evaluation {
  std::string text;
  nlohmann::ordered_json json;
};

// Single examples on which models are compared.
struct ExampleSet {
  std::int64_t size = 0;
  // Returns the inputs of the examples with these numbers, all below `size`; on the CPU.
  std::function<NamedTensors(const std::vector<std::int64_t>&)> inputs;
  // Returns the SHA-256 of the examples as they are in the data, if models make different inputs of them. If null, the
  // digest is that of the inputs.
  std::function<std::string(const std::vector<std::int64_t>&)> digest = nullptr;
  // Returns the name of the input that is the numbers of a layer's rows, by example. Null if all examples have the same
  // number.
  std::function<std::string(const std::string& layer)> lengths = nullptr;
  // Returns the length of an example; the model accepts lengths up to `longest`. Null if all have one length.
  std::function<std::int64_t(std::int64_t)> length = nullptr;
  std::int64_t longest = 0;
};

// Inputs of training, batch after batch.
struct TrainingInputs {
  std::int64_t per_epoch;  // 0: there are no epochs
  std::function<NamedTensors()> next;
};

// A task, common to all models that learn it.
struct TaskKind {
  // Throws ConfigError for faults of a configuration outside of its model.
  void (*check)(const ExperimentConfig& config);
  // Reads the data and makes the task with the model that `new_model` gives for their sizes. `earlier`: the model
  // directory from which training resumes or starts, whose vocabulary is kept; empty without one. Throws FileError,
  // ConfigError and std::invalid_argument.
  std::unique_ptr<Task> (*make)(const ExperimentConfig& config, const std::string& data_directory,
                                const std::string& earlier, const NewModel& new_model);

  // Runs checks in addition to those of every model, see FamilyChecks (train/checks/model_checks.h).
  std::vector<CheckResult> (*checks)(Model& model, Model& folded, const NamedTensors& inputs);
  // Reads, for `foldgrad run`, a file's inputs, on the host. Throws FileError for inputs that do not fit.
  NamedTensors (*read_inputs)(const Model& model, const std::string& path);
  // Returns results by name, including "logits". If null, these are the only result, [examples, classes].
  NamedTensors (*results)(Model& model, const NamedTensors& inputs, const ForwardPass& pass) = nullptr;
  // For commands that work on data; null if the task has none. They throw FileError, ConfigError, CheckpointError,
  // NonFiniteError and std::invalid_argument.
  Evaluation (*evaluate)(Model& model, const ModelData& data, const EvaluationOptions& options) = nullptr;
  ExampleSet (*examples)(const Model& model, const ModelData& data) = nullptr;
  // If null, the inputs are those of the configuration's task in training.
  TrainingInputs (*training_inputs)(const Model& model, const ModelData& data, std::int64_t max_tokens,
                                    std::uint64_t seed) = nullptr;
  // Describes the vocabulary in a model's directory, for `foldgrad inspect`.
  nlohmann::ordered_json (*vocabulary)(const Model& model, const std::string& directory) = nullptr;
};

struct Family {
  std::string name;  // model.family of a configuration, and Model::family()
  const TaskKind* task;

  // Describe and make the model of config.json, whose format is in docs/model_directory.md. The values are not set.
  // make_model is strict: it throws std::invalid_argument for keys that are missing, unknown or out of range.
  nlohmann::ordered_json (*config_json)(const Model& model);
  std::unique_ptr<Model> (*make_model)(const nlohmann::json& config, DType dtype, Device device);
  // Returns some parameters, including the largest, with their shapes. If a file lacks them, the sizes of `config` are
  // wrong, and that is found before memory is allocated for them. Throws as make_model does.
  std::vector<std::pair<std::string, Shape>> (*expected_parameters)(const nlohmann::json& config);

  // Make a model of a configuration: initialized by train.seed for the sizes of its data, or as small as possible.
  // Throw std::invalid_argument.
  std::unique_ptr<Model> (*new_model)(const ExperimentConfig& config, const DataSizes& sizes, Device device);
  std::unique_ptr<Model> (*smallest_model)(const ExperimentConfig& config);
};

// Returns the rows of the library, which train/families.cpp lists.
std::deque<Family> library_families();

// Throws std::invalid_argument for an unknown name; the message has the nearest and all names.
const Family& family(const std::string& name);
inline const Family& family_of(const Model& model) { return family(model.family()); }

// Makes the task of a configuration's run, see TaskKind::make.
std::unique_ptr<Task> make_task(const ExperimentConfig& config, const std::string& data_directory,
                                const std::string& earlier, Device device);
// Call the functions of the model's task. They throw std::invalid_argument if it has none.
Evaluation evaluate(Model& model, const ModelData& data, const EvaluationOptions& options);
ExampleSet examples_of(const Model& model, const ModelData& data);
TrainingInputs training_inputs(const Model& model, const ModelData& data, std::int64_t max_tokens, std::uint64_t seed);

// Returns a file's tensor `t` as ids, i64. Throws FileError unless they are i64 or i32 [rows, tokens], which `form`
// describes, of at most `most` tokens, each in [0, vocabulary).
Tensor checked_ids(const std::string& path, const std::string& name, const Tensor& t, const std::string& form,
                   std::int64_t most, std::int64_t vocabulary);

// Makes a small model of the configuration. Throws std::invalid_argument or ConfigError for faults that can be found
// before the data is read.
std::unique_ptr<Model> smallest_model(const ExperimentConfig& config);

// Returns config.json of a model directory.
nlohmann::ordered_json model_json(const Model& model);
// Returns the row for a file's content, after checking its format and version. Throws std::invalid_argument.
const Family& family_of(const nlohmann::json& config);

// Adds a row. Call it at the start of the program, from one thread. Throws std::invalid_argument if the name is taken.
void register_family(Family family);

}  // namespace foldgrad
