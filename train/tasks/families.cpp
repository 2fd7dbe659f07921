#include "train/tasks/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>

#include "engine/check.h"
#include "engine/contains.h"
#include "models/cct/cct.h"
#include "models/images/onnx_export.h"
#include "models/options/nearest_name.h"
#include "models/transformer/onnx_export.h"
#include "models/vit/vit.h"
#include "train/system/json_file.h"
#include "train/tasks/classification.h"
#include "train/tasks/classification_checks.h"
#include "train/tasks/classification_inputs.h"
#include "train/tasks/model_rows.h"
#include "train/tasks/translation.h"
#include "train/tasks/translation_checks.h"
#include "train/tasks/translation_inputs.h"

namespace foldgrad {
namespace {

constexpr int kFormatVersion = 1;
constexpr const char* kFormatPrefix = "foldgrad ";

// A row is asked about models of its own family alone.
Transformer& transformer(Model& model) { return static_cast<Transformer&>(model); }

const TaskKind kTranslation{.name = "translation",
                            .check = [](const ExperimentConfig& config) { require_usable(config.data); },
                            .make = make_translation,
                            .checks =
                                [](Model& model, Model& folded, const NamedTensors& inputs) {
                                  return check_translation(transformer(model), transformer(folded),
                                                           TranslationBatch::of(inputs));
                                },
                            .read_inputs = read_translation_inputs,
                            .results = translation_results,
                            .validation_examples = translation_examples};

const TaskKind kClassification{
    .name = "classification",
    .check = [](const ExperimentConfig& config) { check_images(config.images); },
    .make = make_classification,
    .checks = [](Model& model, Model&,
                 const NamedTensors& inputs) { return std::vector<CheckResult>{check_other_images(model, inputs)}; },
    .read_inputs = read_image_inputs,
    .results = classification_results,
    .evaluate = evaluate_classification,
    .validation_examples = image_examples};

// The row of `M`, whose configuration is the member `keys` of an experiment's. model_rows.h has the rest.
template <class M, auto keys>
Family model_row(const char* name, const TaskKind& task) {
  using Config = std::remove_cvref_t<decltype(ExperimentConfig().*keys)>;
  return {.name = name,
          .task = &task,
          .config_json = [](const Model& model) { return config_json(static_cast<const M&>(model).config()); },
          .make_model = [](const nlohmann::json& config, DType dtype, Device device) -> std::unique_ptr<Model> {
            return std::make_unique<M>(parse_config_json<Config>(config), std::nullopt, dtype, device);
          },
          .expected_parameters =
              [](const nlohmann::json& config) { return expected_parameters(parse_config_json<Config>(config)); },
          .write_onnx = [](Model& model, const std::string& to) { return write_onnx(static_cast<M&>(model), to); },
          .new_model = [](const ExperimentConfig& experiment, const DataSizes& sizes,
                          Device device) -> std::unique_ptr<Model> {
            Config config = experiment.*keys;
            take_sizes(config, sizes);
            return std::make_unique<M>(config, std::uint64_t(experiment.train.seed), DType::f32, device);
          },
          .smallest_model = [](const ExperimentConfig& experiment) -> std::unique_ptr<Model> {
            return std::make_unique<M>(smallest(experiment.*keys), std::nullopt);
          }};
}

// Rows stay where they are.
std::deque<Family>& families() {
  static std::deque<Family> all{model_row<Transformer, &ExperimentConfig::model>("transformer", kTranslation),
                                model_row<Vit, &ExperimentConfig::vit>("vit", kClassification),
                                model_row<Cct, &ExperimentConfig::cct>("cct", kClassification)};
  return all;
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
  return row.task->make(config, data_directory, earlier,
                        [&](const DataSizes& sizes) { return row.new_model(config, sizes, device); });
}

std::unique_ptr<Model> smallest_model(const ExperimentConfig& config) {
  const Family& row = family(config.family);
  row.task->check(config);
  return row.smallest_model(config);
}

nlohmann::ordered_json model_json(const Model& model) {
  nlohmann::ordered_json all{{"format", std::string(kFormatPrefix) + model.family()},
                             {"format_version", kFormatVersion}};
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
  FOLDGRAD_CHECK(version != config.end() && *version == kFormatVersion, "\"format_version\" must be {}, got {}",
                 kFormatVersion, version == config.end() ? "none" : shown(*version));
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
