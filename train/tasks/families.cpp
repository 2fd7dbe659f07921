#include "train/tasks/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/check.h"
#include "engine/contains.h"
#include "engine/files/file.h"
#include "models/options/nearest_name.h"
#include "train/data/data_sets.h"
#include "train/system/json_file.h"

namespace foldgrad {
namespace {

constexpr int kModelFormat = 1;
constexpr const char* kFormatPrefix = "foldgrad ";

// Returns make(). Messages of its errors name the configuration's keys.
auto of_configuration(const ExperimentConfig& config, const auto& make) try {
  return make();
} catch (const std::invalid_argument& e) {
  throw ConfigError(with_keys(config, e.what()));
}

}  // namespace

std::unique_ptr<Model> new_model(const ExperimentConfig& config, Device device) {
  return of_configuration(config, [&] {
    return family(config.family).make(config.model, std::uint64_t(config.train.seed), DType::f32, device);
  });
}

std::unique_ptr<Task> make_task(const ExperimentConfig& config, const std::string& data_directory,
                                const std::string& earlier, Device device) {
  return family(config.family).task->make(config, data_directory, earlier, device);
}

ExperimentConfig ModelData::read_config(const Model& model) const {
  FOLDGRAD_CHECK(!config.empty(), "{} does not belong to a run: --config must name a configuration", this->model);
  ExperimentConfig read = foldgrad::read_config(config);
  FOLDGRAD_CHECK(read.family == model.family(), "{}: model.family must be \"{}\", that of the model, got \"{}\"",
                 config, model.family(), read.family);
  return read;
}

std::string ModelData::data_root(const ExperimentConfig& config) const {
  return foldgrad::data_directory(config.data_directory(), data_directory);
}

Evaluation evaluate(Model& model, const ModelData& data, const EvaluationOptions& options) {
  const auto row = family_of(model).task->evaluate;
  FOLDGRAD_CHECK(row, "eval: there are no scores for models of family \"{}\"", model.family());
  return row(model, data, options);
}

ExampleSet examples_of(const Model& model, const ModelData& data) {
  const auto row = family_of(model).task->examples;
  FOLDGRAD_CHECK(row, "{}: there are no examples for models of family \"{}\"", data.model, model.family());
  return row(model, data);
}

TrainingInputs training_inputs(const Model& model, const ModelData& data, std::int64_t max_tokens, std::uint64_t seed) {
  const TaskKind& kind = *family_of(model).task;
  if (kind.training_inputs) return kind.training_inputs(model, data, max_tokens, seed);
  FOLDGRAD_CHECK(
      data.source.empty() && data.reference.empty() && data.split == "train",
      "recalibrate: models of family \"{}\" are recalibrated on their own training data, so --source, --reference and "
      "--split must not be given",
      model.family());
  ExperimentConfig config = data.read_config(model);
  config.train.seed = std::int64_t(seed);
  const std::shared_ptr<Task> task = make_task(config, data.data_root(config), data.directory, Device::cpu);
  return {task->batches().per_epoch(), [task] { return task->next().inputs; }};
}

Tensor checked_ids(const std::string& path, const std::string& name, const Tensor& t, const std::string& form,
                   std::int64_t most, std::int64_t vocabulary) {
  const bool whole = t.dtype() == DType::i64 || t.dtype() == DType::i32;
  if (!whole || t.shape().rank() != 2 || t.size() == 0 || t.shape()[1] > most)
    throw FileError(path, fmt::format("{} must be i64 or i32 {}, got {}", name, form, describe(t)));
  const Tensor ids = t.to(DType::i64);
  for (std::int64_t i = 0; i < ids.size(); ++i)
    if (const std::int64_t id = ids.data<std::int64_t>()[i]; id < 0 || id >= vocabulary)
      throw FileError(path, fmt::format("{}[{}, {}] must be an id in [0, {}), got {}", name, i / t.shape()[1],
                                        i % t.shape()[1], vocabulary, id));
  return ids;
}

std::unique_ptr<Model> smallest_model(const ExperimentConfig& config) {
  const Family& row = family(config.family);
  config.data.validate();
  return of_configuration(config,
                          [&] { return row.make(row.smallest(config.model), std::nullopt, DType::f32, Device::cpu); });
}

nlohmann::ordered_json model_json(const Model& model) {
  nlohmann::ordered_json all{{"format", std::string(kFormatPrefix) + model.family()}, {"format_version", kModelFormat}};
  all.update(family_of(model).to_json(model));
  return all;
}

const Family& family_of(const nlohmann::json& config) {
  FOLDGRAD_CHECK(config.is_object(), "must be an object, got {}", config.type_name());
  const auto format = config.find("format"), version = config.find("format_version");
  std::vector<std::string> formats;
  const Family* found = nullptr;
  for (const std::string& name : family_names()) {
    formats.push_back(fmt::format("\"{}{}\"", kFormatPrefix, name));
    if (format != config.end() && *format == kFormatPrefix + name) found = &family(name);
  }
  FOLDGRAD_CHECK(found, "\"format\" must be {}, got {}", fmt::join(formats, " or "),
                 format == config.end() ? "none" : shown(*format));
  FOLDGRAD_CHECK(version != config.end() && *version == kModelFormat, "\"format_version\" must be {}, got {}",
                 kModelFormat, version == config.end() ? "none" : shown(*version));
  const std::vector<std::string> known{"format", "format_version", "model", "norm"};
  for (const auto& [key, value] : config.items())
    FOLDGRAD_CHECK(contains(known, key), "there is no key \"{}\"{}", key, did_you_mean(key, known, "\""));
  return *found;
}

}  // namespace foldgrad
