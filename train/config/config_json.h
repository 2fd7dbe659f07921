// A model's configuration as JSON, the content of config.json in a model directory. The keys are in the objects "model"
// and "norm"; "norm" also has the normalizer's options and BlockConfig::normalizer_at.
#pragma once
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "engine/check.h"
#include "models/blocks/config.h"
#include "models/options/key.h"
#include "train/system/json_file.h"

namespace foldgrad {

// Returns the object "model" or "norm" of the file. Throws std::invalid_argument if it is missing or not an object.
const nlohmann::json& section_of(const nlohmann::json& root, const char* name);
// Throws std::invalid_argument if a section has a key that is not in `known`, a list of full names.
void refuse_others(const nlohmann::json& section, const std::string& name, const std::vector<std::string>& known);

// Reads a key from its section. Throws std::invalid_argument if the key is required and missing.
template <class T>
void read_key(const nlohmann::json& section, const ConfigKey& key, T& member) {
  const auto found = section.find(key.name);
  FOLDGRAD_CHECK(found != section.end() || !key.required_in_json, "{} is missing", key.full_name());
  if (found == section.end()) return;
  const auto require = [&](bool holds, const std::string& what) {
    FOLDGRAD_CHECK(holds, "{} must be {}, got {}", key.full_name(), what, shown(*found));
  };
  if constexpr (std::is_same_v<T, std::int64_t>) {
    const auto most = std::int64_t(std::min(key.range.high, double(kMostOfASize)));
    // get<std::int64_t>() would wrap a number above 2^63 - 1.
    const double number = found->is_number_integer() ? found->template get<double>() : -1;
    require(number >= 0 && number <= double(most), fmt::format("an integer in [0, {}]", most));
  } else if constexpr (std::is_same_v<T, double>) {
    require(found->is_number(), "a number");
  } else if constexpr (std::is_same_v<T, bool>) {
    require(found->is_boolean(), "true or false");
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    const auto is_size = [](const nlohmann::json& v) {
      return v.is_number_integer() && v.get<double>() >= 0 && v.get<double>() <= double(kMostOfASize);
    };
    require(found->is_array() && std::ranges::all_of(*found, is_size),
            fmt::format("an array of integers in [0, {}]", kMostOfASize));
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    require(found->is_array() && std::ranges::all_of(*found, &nlohmann::json::is_string), "an array of text");
  } else if constexpr (std::is_same_v<T, std::array<double, 3>>) {
    require(found->is_array() && found->size() == 3 && std::ranges::all_of(*found, &nlohmann::json::is_number),
            "three numbers");
  } else {
    require(found->is_string(), "text");
  }
  member = found->template get<T>();
}

// Write and read norm.options and norm.at.
void write_normalizer(const BlockConfig& config, nlohmann::ordered_json& norm);
void read_normalizer(const nlohmann::json& norm, BlockConfig& config);

// Returns
//   {"model": {"source_vocabulary": 104, ..., "share_embeddings": "all"},
//    "norm": {"name": "un", "options": {"window": 4, "eps": 1e-05, ...}, "at": {"SITE": "affine"}}}
// with every key, even if it has its default, except empty lists; docs/model_directory.md lists the keys.
template <class Config>
nlohmann::ordered_json config_json(const Config& config) {
  nlohmann::ordered_json all;
  visit_keys(config, [&](const auto& member, const ConfigKey& key) {
    if (nlohmann::ordered_json value = member; !value.is_array() || !value.empty())
      all[key.section][key.name] = std::move(value);
  });
  write_normalizer(config, all["norm"]);
  return all;
}

// Reads strictly: throws std::invalid_argument for keys that do not exist, values of the wrong type, sizes above 2^31 -
// 1 (max_positions: 1,000,000), and anything that config.validate() or the normalizer refuses. norm.options, norm.at
// and keys without ConfigKey::required_in_json may be missing.
template <class Config>
Config parse_config_json(const nlohmann::json& root) {
  Config config;
  const nlohmann::json &model = section_of(root, "model"), &norm = section_of(root, "norm");
  std::map<std::string, std::vector<std::string>> known;  // names of the known keys, by section
  visit_keys(config, [&](auto& member, const ConfigKey& key) {
    known[key.section].push_back(key.full_name());
    read_key(key.section == "model" ? model : norm, key, member);
  });
  refuse_others(model, "model", known["model"]);
  read_normalizer(norm, config);
  // Version 0.3 and earlier wrote norm.mask, for padding in training.
  known["norm"].insert(known["norm"].end(), {"norm.options", "norm.at", "norm.mask"});
  refuse_others(norm, "norm", known["norm"]);
  config.validate();
  return config;
}

}  // namespace foldgrad
