#include "train/config/config_json.h"

#include "engine/contains.h"
#include "models/normalizers/normalizer.h"
#include "models/options/nearest_name.h"

namespace foldgrad {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Kind = Option::Kind;

ordered_json option_json(const NormalizerOption& option, const std::string& value) {
  switch (option.kind) {
    case Kind::boolean:
    case Kind::flag:
      return value == "1" || value == "true";
    case Kind::integer:
      return std::stoll(value);
    case Kind::number:
      return std::stod(value);
    case Kind::choice:
    case Kind::integers:
    case Kind::texts:
    case Kind::text:
      break;
  }
  return value;
}

std::map<std::string, std::string> read_options(const json& options) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : options.items()) {
    FOLDGRAD_CHECK(value.is_number() || value.is_boolean() || value.is_string(),
                   "norm.options.{} must be a number, true, false or text, got {}", key, shown(value));
    texts[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return texts;
}

std::map<std::string, std::string> read_sites(const json& at) {
  std::map<std::string, std::string> names;
  for (const auto& [site, name] : at.items()) {
    FOLDGRAD_CHECK(name.is_string(), "norm.at.{} must be text, got {}", site, shown(name));
    names[site] = name.get<std::string>();
  }
  return names;
}

}  // namespace

JsonSection::JsonSection(const json& parent, const char* name) : name_(name) {
  const auto found = parent.find(name);
  FOLDGRAD_CHECK(found != parent.end(), "\"{}\" is missing", name);
  FOLDGRAD_CHECK(found->is_object(), "\"{}\" must be an object, got {}", name, shown(*found));
  object_ = *found;
}

const json* JsonSection::object(const char* key) {
  known_.push_back(key);
  const auto found = object_.find(key);
  if (found == object_.end()) return nullptr;
  FOLDGRAD_CHECK(found->is_object(), "{}.{} must be an object, got {}", name_, key, shown(*found));
  return &*found;
}

void JsonSection::end() const {
  std::vector<std::string> known;
  for (const std::string& key : known_) known.push_back(fmt::format("{}.{}", name_, key));
  for (const auto& [key, value] : object_.items())
    FOLDGRAD_CHECK(contains(known_, key), "there is no key {}.{}{}", name_, key,
                   did_you_mean(fmt::format("{}.{}", name_, key), known));
}

void write_normalizer(const BlockConfig& config, ordered_json& norm) {
  ordered_json options = ordered_json::object();
  const NormalizerInfo& info = normalizer_info(config.normalizer);
  const NormalizerOptions chosen(config.normalizer, info.options, config.normalizer_options);
  for (const NormalizerOption& option : info.options)
    if (!option.told_by_model || config.normalizer_options.count(option.name))
      options[option.name] = option_json(option, chosen.text(option.name));
  norm["options"] = std::move(options);
  if (!config.normalizer_at.empty()) norm["at"] = config.normalizer_at;
}

void read_normalizer(JsonSection& norm, BlockConfig& config) {
  if (const json* options = norm.object("options")) config.normalizer_options = read_options(*options);
  if (const json* at = norm.object("at")) config.normalizer_at = read_sites(*at);
  (void)NormalizerOptions(config.normalizer, normalizer_info(config.normalizer).options, config.normalizer_options);
}

void write_rest(const ImageModelConfig& config, ordered_json& model) {
  if (!config.class_names.empty()) model["class_names"] = config.class_names;
  model["image_mean"] = config.pixels.mean;
  model["image_std"] = config.pixels.std;
}

void read_rest(ImageModelConfig& config, JsonSection& model) {
  model.read("class_names", config.class_names, false);
  model.read("image_mean", config.pixels.mean, false);
  model.read("image_std", config.pixels.std, false);
}

void read_rest(TransformerConfig& config, JsonSection&) {
  FOLDGRAD_CHECK(config.max_positions <= kMostPositions, "model.max_positions must be at most {}, got {}",
                 kMostPositions, config.max_positions);
}

void read_rest(GptConfig& config, JsonSection&) {
  FOLDGRAD_CHECK(config.context <= kMostPositions, "model.context must be at most {}, got {}", kMostPositions,
                 config.context);
}

}  // namespace foldgrad
