// A model's configuration as JSON, as config.json of a model directory holds it: its keys in the objects "model" and
// "norm", and in the latter the options of the normalizer and the sites that have another one.
#pragma once
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/check.h"
#include "train/config/model_keys.h"
#include "train/system/json_file.h"

namespace foldgrad {

// One object of the file, which must have some keys and may have others.
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

// Keys that no ConfigKey describes, and limits that no file bears out.
inline void write_rest(const BlockConfig&, nlohmann::ordered_json&) {}
void write_rest(const ImageModelConfig& config, nlohmann::ordered_json& model);
void read_rest(TransformerConfig& config, JsonSection& model);
void read_rest(ImageModelConfig& config, JsonSection& model);
void read_rest(GptConfig& config, JsonSection& model);

// {"model": {"source_vocabulary": 104, ..., "share_embeddings": "all"},
//  "norm": {"name": "un", "mask": true, "options": {"window": 4, "eps": 1e-05, ...}, "at": {"SITE": "affine"}}}
// with every key, also those at their default; docs/model_directory.md lists them.
template <class Config>
nlohmann::ordered_json config_json(const Config& config) {
  nlohmann::ordered_json all;
  visit_keys(config, [&](const auto& member, const ConfigKey& key) { all[key.section][key.name] = member; });
  write_rest(config, all["model"]);
  write_normalizer(config, all["norm"]);
  return all;
}

// Strict: throws std::invalid_argument for keys that do not exist, values of another type, sizes above 2^31 - 1
// (max_positions: 1,000,000), and what config.validate() or the normalizer refuses. Keys that
// ConfigKey::required_in_json does not name may be left out, as may class_names, image_mean, image_std, norm.options
// and norm.at.
template <class Config>
Config parse_config_json(const nlohmann::json& root) {
  Config config;
  JsonSection model(root, "model"), norm(root, "norm");
  visit_keys(config, [&](auto& member, const ConfigKey& key) {
    (key.section == "model" ? model : norm).read(key.name, member, key.required_in_json);
  });
  read_rest(config, model);
  model.end();
  read_normalizer(norm, config);
  norm.end();
  config.validate();
  return config;
}

}  // namespace foldgrad
