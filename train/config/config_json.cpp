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

// The members of norm.NAME as text, which must be text unless `others` allows numbers, true and false too.
std::map<std::string, std::string> texts_of(const json& object, const char* name, bool others) {
  std::map<std::string, std::string> texts;
  for (const auto& [key, value] : object.items()) {
    FOLDGRAD_CHECK(value.is_string() || (others && (value.is_number() || value.is_boolean())),
                   "norm.{}.{} must be {}text, got {}", name, key, others ? "a number, true, false or " : "",
                   shown(value));
    texts[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return texts;
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
  if (const json* options = norm.object("options")) config.normalizer_options = texts_of(*options, "options", true);
  if (const json* at = norm.object("at")) config.normalizer_at = texts_of(*at, "at", false);
  (void)NormalizerOptions(config.normalizer, normalizer_info(config.normalizer).options, config.normalizer_options);
}

}  // namespace foldgrad
