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
  if (option.kind == Kind::boolean || option.kind == Kind::flag) return value == "1" || value == "true";
  if (option.kind == Kind::integer) return std::stoll(value);
  if (option.kind == Kind::number) return std::stod(value);
  return value;
}

// Returns the members of norm.NAME as strings. They must be strings or, with `others`, numbers or booleans.
std::map<std::string, std::string> texts_of(const json& norm, const char* name, bool others) {
  std::map<std::string, std::string> texts;
  if (!norm.contains(name)) return texts;
  FOLDGRAD_CHECK(norm[name].is_object(), "norm.{} must be an object, got {}", name, shown(norm[name]));
  for (const auto& [key, value] : norm[name].items()) {
    FOLDGRAD_CHECK(value.is_string() || (others && (value.is_number() || value.is_boolean())),
                   "norm.{}.{} must be {}text, got {}", name, key, others ? "a number, true, false or " : "",
                   shown(value));
    texts[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return texts;
}

}  // namespace

const json& section_of(const json& root, const char* name) {
  FOLDGRAD_CHECK(root.contains(name), "\"{}\" is missing", name);
  FOLDGRAD_CHECK(root[name].is_object(), "\"{}\" must be an object, got {}", name, shown(root[name]));
  return root[name];
}

void refuse_others(const json& section, const std::string& name, const std::vector<std::string>& known) {
  for (const auto& [key, value] : section.items()) {
    const std::string full = name + "." + key;
    FOLDGRAD_CHECK(contains(known, full), "there is no key {}{}", full, did_you_mean(full, known));
  }
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

void read_normalizer(const json& norm, BlockConfig& config) {
  config.normalizer_options = texts_of(norm, "options", true);
  if (config.normalizer == "un") config.normalizer_options.erase("mask");  // a key of version 0.3, like norm.mask
  config.normalizer_at = texts_of(norm, "at", false);
  (void)NormalizerOptions(config.normalizer, normalizer_info(config.normalizer).options, config.normalizer_options);
}

}  // namespace foldgrad
