// What config.json holds of a configuration, whatever the family: its keys in the objects "model" and "norm", and in
// the latter the options of the normalizer and the sites that have another one.
#pragma once
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/check.h"
#include "train/config/model_keys.h"
#include "train/system/json_file.h"

namespace foldgrad {

// What one object of the file must and may have.
class JsonSection {
 public:
  JsonSection(const nlohmann::json& parent, const char* name);

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
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      const bool texts =
          found->is_array() && std::ranges::all_of(*found, [](const nlohmann::json& v) { return v.is_string(); });
      FOLDGRAD_CHECK(texts, "{}.{} must be an array of text, got {}", name_, key, shown(*found));
    } else if constexpr (std::is_same_v<T, std::array<double, 3>>) {
      const bool three = found->is_array() && found->size() == 3 &&
                         std::ranges::all_of(*found, [](const nlohmann::json& v) { return v.is_number(); });
      FOLDGRAD_CHECK(three, "{}.{} must be three numbers, got {}", name_, key, shown(*found));
    } else {
      FOLDGRAD_CHECK(found->is_string(), "{}.{} must be text, got {}", name_, key, shown(*found));
    }
    member = found->template get<T>();
  }

  // Null when it is missing.
  const nlohmann::json* object(const char* key);
  // Refuses keys that nobody asked for.
  void end() const;

 private:
  const char* name_;
  nlohmann::json object_;
  std::vector<std::string> known_;
};

// norm.options and norm.at.
void write_normalizer(const BlockConfig& config, nlohmann::ordered_json& norm);
void read_normalizer(JsonSection& norm, BlockConfig& config);

// Every key of the family is written, also those with their default.
template <class Config>
nlohmann::ordered_json config_json(const Config& config) {
  nlohmann::ordered_json all;
  visit_model_keys(config, [&](const auto& member, const ConfigKey& key) { all[key.section][key.name] = member; });
  write_normalizer(config, all["norm"]);
  return all;
}

// Strict: throws std::invalid_argument for keys that do not exist, values of another type, and options that the
// normalizer does not have. The caller validates the rest. Keys that ConfigKey::required_in_json does not name may be
// left out, as may norm.options and norm.at. more(model): reads keys that no ConfigKey describes.
template <class Config, class More>
Config parse_config_json(const nlohmann::json& root, const More& more) {
  Config config;
  JsonSection model(root, "model"), norm(root, "norm");
  visit_model_keys(config, [&](auto& member, const ConfigKey& key) {
    (key.section == "model" ? model : norm).read(key.name, member, key.required_in_json);
  });
  more(config, model);
  model.end();
  read_normalizer(norm, config);
  norm.end();
  return config;
}

}  // namespace foldgrad
