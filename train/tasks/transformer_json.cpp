#include "train/tasks/transformer_json.h"

#include <type_traits>

#include "engine/check.h"
#include "engine/contains.h"
#include "models/normalizers/normalizer.h"
#include "models/options/nearest_name.h"
#include "train/config/keys.h"
#include "train/system/json_file.h"

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
    case Kind::text:
      break;
  }
  return value;
}

// What one object of the file must and may have.
class Section {
 public:
  Section(const json& parent, const char* name) : name_(name) {
    const auto found = parent.find(name);
    FOLDGRAD_CHECK(found != parent.end(), "\"{}\" is missing", name);
    FOLDGRAD_CHECK(found->is_object(), "\"{}\" must be an object, got {}", name, shown(*found));
    object_ = *found;
  }

  template <class T>
  void read(const std::string& key, T& member, bool required) {
    known_.push_back(key);
    const auto found = object_.find(key);
    FOLDGRAD_CHECK(found != object_.end() || !required, "{}.{} is missing", name_, key);
    if (found == object_.end()) return;
    if constexpr (std::is_same_v<T, std::int64_t>) {
      // Above 2^63 - 1 a number is unsigned, and get<std::int64_t>() would wrap it.
      const bool fits = found->is_number_integer() &&
                        (!found->is_number_unsigned() || found->template get<std::uint64_t>() <= kMostOfASize) &&
                        found->template get<std::int64_t>() >= 0;
      FOLDGRAD_CHECK(fits, "{}.{} must be an integer in [0, {}], got {}", name_, key, kMostOfASize, shown(*found));
    } else if constexpr (std::is_same_v<T, double>) {
      FOLDGRAD_CHECK(found->is_number(), "{}.{} must be a number, got {}", name_, key, shown(*found));
    } else if constexpr (std::is_same_v<T, bool>) {
      FOLDGRAD_CHECK(found->is_boolean(), "{}.{} must be true or false, got {}", name_, key, shown(*found));
    } else {
      FOLDGRAD_CHECK(found->is_string(), "{}.{} must be text, got {}", name_, key, shown(*found));
    }
    member = found->template get<T>();
  }

  const json* object(const char* key) {
    known_.push_back(key);
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    FOLDGRAD_CHECK(found->is_object(), "{}.{} must be an object, got {}", name_, key, shown(*found));
    return &*found;
  }

  void end() const {
    std::vector<std::string> known;
    for (const std::string& key : known_) known.push_back(fmt::format("{}.{}", name_, key));
    for (const auto& [key, value] : object_.items())
      FOLDGRAD_CHECK(contains(known_, key), "there is no key {}.{}{}", name_, key,
                     did_you_mean(fmt::format("{}.{}", name_, key), known));
  }

 private:
  const char* name_;
  json object_;
  std::vector<std::string> known_;
};

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

ordered_json transformer_json(const TransformerConfig& config) {
  ordered_json all, options = ordered_json::object();
  visit_model_keys(config, [&](const auto& member, const ConfigKey& key) { all[key.section][key.name] = member; });
  const NormalizerInfo& info = normalizer_info(config.normalizer);
  const NormalizerOptions chosen(config.normalizer, info.options, config.normalizer_options);
  for (const NormalizerOption& option : info.options)
    if (!option.told_by_model || config.normalizer_options.count(option.name))
      options[option.name] = option_json(option, chosen.text(option.name));
  all["norm"]["options"] = std::move(options);
  if (!config.normalizer_at.empty()) all["norm"]["at"] = config.normalizer_at;
  return all;
}

TransformerConfig parse_transformer(const json& root) {
  TransformerConfig config;
  Section model(root, "model"), norm(root, "norm");
  visit_model_keys(config, [&](auto& member, const ConfigKey& key) {
    (key.section == "model" ? model : norm).read(key.name, member, key.required_in_json);
  });
  model.end();
  FOLDGRAD_CHECK(config.max_positions <= kMostPositions, "model.max_positions must be at most {}, got {}",
                 kMostPositions, config.max_positions);
  if (const json* options = norm.object("options")) config.normalizer_options = read_options(*options);
  if (const json* at = norm.object("at")) config.normalizer_at = read_sites(*at);
  norm.end();
  config.validate();
  (void)NormalizerOptions(config.normalizer, normalizer_info(config.normalizer).options, config.normalizer_options);
  return config;
}

std::vector<std::pair<std::string, Shape>> expected_transformer_parameters(const json& root) {
  const TransformerConfig c = parse_transformer(root);
  std::vector<std::pair<std::string, Shape>> all{{"encoder.embed_tokens.weight", {c.source_vocabulary, c.width}}};
  if (!c.one_input_table()) all.push_back({"decoder.embed_tokens.weight", {c.target_vocabulary, c.width}});
  using Stack = std::pair<const char*, std::int64_t>;
  for (const auto& [stack, layers] : {Stack{"encoder", c.encoder_layers}, {"decoder", c.decoder_layers}})
    for (const std::int64_t layer : {std::int64_t(0), layers - 1})
      all.push_back({fmt::format("{}.layers.{}.fc1.weight", stack, layer), {c.ffn_width, c.width}});
  return all;
}

}  // namespace foldgrad
