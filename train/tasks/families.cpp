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
#include "train/tasks/image_family.h"
#include "train/tasks/transformer_json.h"
#include "train/tasks/translation.h"
#include "train/tasks/translation_checks.h"
#include "train/tasks/translation_inputs.h"

namespace foldgrad {
namespace {

constexpr int kFormatVersion = 1;
constexpr const char* kFormatPrefix = "foldgrad ";

// A row is asked about models of its own family alone.
Transformer& transformer(Model& model) { return static_cast<Transformer&>(model); }

Family transformer_family() {
  return {.name = "transformer",
          .config_json =
              [](const Model& model) { return transformer_json(static_cast<const Transformer&>(model).config()); },
          .make_model = [](const nlohmann::json& config, DType dtype, Device device) -> std::unique_ptr<Model> {
            return std::make_unique<Transformer>(parse_transformer(config), std::nullopt, dtype, device);
          },
          .expected_parameters = expected_transformer_parameters,
          .checks =
              [](Model& model, Model& folded, const NamedTensors& inputs) {
                return check_translation(transformer(model), transformer(folded), TranslationBatch::of(inputs));
              },
          .read_inputs = read_translation_inputs,
          .results = translation_results,
          .validation_examples = translation_examples,
          .write_onnx = [](Model& model, const std::string& to) { return write_onnx(transformer(model), to); },
          .smallest_model = smallest_transformer,
          .make_task = make_translation};
}

// Rows stay where they are.
std::deque<Family>& families() {
  static std::deque<Family> all{transformer_family(), image_family<Vit>("vit"), image_family<Cct>("cct")};
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
