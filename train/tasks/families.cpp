#include "train/tasks/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/check.h"
#include "engine/contains.h"
#include "engine/files/file.h"
#include "models/options/nearest_name.h"
#include "train/config/messages.h"
#include "train/data/data_sets.h"
#include "train/system/json_file.h"

namespace foldgrad {
namespace {

constexpr int kModelFormat = 1;
constexpr const char* kFormatPrefix = "foldgrad ";

// Returns a deque: adding a row does not move the others.
std::deque<Family>& families() {
  static std::deque<Family> all = library_families();
  return all;
}

// Returns make(), with the configuration's keys in its messages.
template <class Make>
auto of_configuration(const ExperimentConfig& config, const Make& make) try {
  return make();
} catch (const std::invalid_argument& e) {
  throw ConfigError(with_keys(config, e.what()));
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Family& f : families()) all.push_back(f.name);
  return all;
}

}  // namespace

const Family& family(const std::string& name) {
  for (const Family& f : families())
    if (f.name == name) return f;
  throw std::invalid_argument(fmt::format("there is no model.family \"{}\"{} There are: {}", name,
                                          did_you_mean(name, names(), "\"", "."), fmt::join(names(), ", ")));
}

std::unique_ptr<Task> make_task(const ExperimentConfig& config, const std::string& data_directory,
                                const std::string& earlier, Device device) {
  const Family& row = family(config.family);
  return row.task->make(config, data_directory, earlier, [&](const DataSizes& sizes) {
    return of_configuration(config, [&] { return row.new_model(config, sizes, device); });
  });
}

ExperimentConfig ModelData::read_config(const Model& model) const {
  FOLDGRAD_CHECK(!config.empty(), "{} belongs to no run: --config must name a configuration", this->model);
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
  FOLDGRAD_CHECK(row, "eval: there are no scores for a model of model.family \"{}\"", model.family());
  return row(model, data, options);
}

ExampleSet examples_of(const Model& model, const ModelData& data) {
  const auto row = family_of(model).task->examples;
  FOLDGRAD_CHECK(row, "{}: there are no examples for a model of model.family \"{}\"", data.model, model.family());
  return row(model, data);
}

TrainingInputs training_inputs(const Model& model, const ModelData& data, std::int64_t max_tokens, std::uint64_t seed) {
  const TaskKind& kind = *family_of(model).task;
  if (kind.training_inputs) return kind.training_inputs(model, data, max_tokens, seed);
  FOLDGRAD_CHECK(data.source.empty() && data.reference.empty() && data.split == "train",
                 "recalibrate: a model of model.family \"{}\" uses its training data, no --source, --reference or "
                 "--split",
                 model.family());
  ExperimentConfig config = data.read_config(model);
  config.train.seed = std::int64_t(seed);
  const std::shared_ptr<Task> task = make_task(config, data.data_root(config), data.directory, Device::cpu);
  return {task->batches_per_epoch(), [task] { return task->next().inputs; }};
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
  row.task->check(config);
  return of_configuration(config, [&] { return row.smallest_model(config); });
}

nlohmann::ordered_json model_json(const Model& model) {
  nlohmann::ordered_json all{{"format", std::string(kFormatPrefix) + model.family()}, {"format_version", kModelFormat}};
  all.update(family_of(model).config_json(model));
  return all;
}

const Family& family_of(const nlohmann::json& config) {
  FOLDGRAD_CHECK(config.is_object(), "must be an object, got {}", config.type_name());
  const auto format = config.find("format"), version = config.find("format_version");
  std::vector<std::string> formats;
  const Family* found = nullptr;
  for (const Family& f : families()) {
    formats.push_back(fmt::format("\"{}{}\"", kFormatPrefix, f.name));
    if (format != config.end() && *format == kFormatPrefix + f.name) found = &f;
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

void register_family(Family family) {
  const std::vector<std::string> taken = names();
  FOLDGRAD_CHECK(!contains(taken, family.name), "register_family: there is a \"{}\" already", family.name);
  families().push_back(std::move(family));
}

}  // namespace foldgrad
