#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "models/normalizers/normalizer.h"
#include "models/options/nearest_name.h"
#include "train/config/keys.h"
#include "train/config/toml_depth.h"
#include "train/system/printable.h"

namespace foldgrad {
namespace {

// A value that was given, and where. A setting that is not TOML is text without quotes.
struct Given {
  const toml::node* node = nullptr;
  std::string raw;  // of a setting
  std::string place;

  [[noreturn]] void refuse(const std::string& what) const { throw ConfigError(place + ": " + what); }
  std::string shown() const {
    if (!raw.empty() || !node) return in_quotes(raw);
    if (const auto* text = node->as_string()) return in_quotes(text->get());
    if (const auto* number = node->as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* number = node->as_integer()) return fmt::format("{}", number->get());
    if (const auto* flag = node->as_boolean()) return flag->get() ? "true" : "false";
    return node->is_table() ? "a table" : node->is_array() ? "an array" : "a date or time";
  }
  std::string text(const std::string& must_be) const {
    if (node && node->is_string()) return node->as_string()->get();
    if (raw.empty() && node) refuse(fmt::format("{}, got {}", must_be, shown()));
    return raw;
  }
};

using GivenKeys = std::map<std::string, Given>;  // by SECTION.KEY, or norm.NAME.OPTION

std::string place_of(const std::string& name, const toml::node& node) {
  return fmt::format("{}:{}", name, node.source().begin.line);
}

void flatten(const toml::table& table, const std::string& prefix, const std::string& name, GivenKeys& given) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    if (node.is_table() && (prefix.empty() || prefix == "norm."))
      flatten(*node.as_table(), full + ".", name, given);
    else
      given[full] = {&node, "", place_of(name, node)};
  }
}

toml::table parse_toml(const std::string& text, const std::string& name) try {
  if (const std::int64_t line = line_of_deep_key(text))
    throw ConfigError(fmt::format("{}:{}: a key must have at most {} parts", name, line, kMostKeyParts));
  return toml::parse(text, name);
} catch (const toml::parse_error& e) {
  throw ConfigError(fmt::format("{}:{}: {}", name, e.source().begin.line, e.description()));
}

// Puts a setting over what the file gave; the table keeps its value.
void apply_setting(const std::string& setting, toml::table& values, GivenKeys& given) {
  const std::size_t equal = setting.find('=');
  const std::string key = setting.substr(0, equal);
  const auto dots = std::ranges::count(key, '.');
  if (equal == std::string::npos || dots < 1 || dots > 2)
    throw ConfigError(fmt::format("--set {}: must be SECTION.KEY=VALUE", setting));
  const std::string text = setting.substr(equal + 1);
  const std::string place = "--set " + key;
  values = {};
  try {
    if (line_of_deep_key(text) == 0) values = toml::parse("value = " + text);
  } catch (const toml::parse_error&) {
  }
  given[key] = {values.size() == 1 ? values.get("value") : nullptr, text, place};
}

std::string must_be(const ConfigKey& key) { return fmt::format("{} must be {}", key.full_name(), key.values()); }

[[noreturn]] void refuse(const Given& given, const ConfigKey& key) {
  given.refuse(fmt::format("{}, got {}", must_be(key), given.shown()));
}

void assign(std::string& field, const Given& given, const ConfigKey& key) {
  field = given.text(must_be(key));
  if (key.kind == Option::Kind::choice && !key.has_choice(field))
    given.refuse(fmt::format("{}, got {}", must_be(key), in_quotes(field)));
  try {
    (void)nlohmann::json(field).dump();
  } catch (const nlohmann::json::exception&) {
    given.refuse(key.full_name() + " must be UTF-8");
  }
}

void assign(bool& field, const Given& given, const ConfigKey& key) {
  if (!given.node || !given.node->is_boolean()) refuse(given, key);
  field = given.node->as_boolean()->get();
}

void assign(std::int64_t& field, const Given& given, const ConfigKey& key) {
  if (!given.node || !given.node->is_integer()) refuse(given, key);
  field = given.node->as_integer()->get();
  if (!key.range.contains(double(field))) refuse(given, key);
}

void assign(std::vector<std::int64_t>& field, const Given& given, const ConfigKey& key) {
  if (!given.node || !given.node->is_array()) refuse(given, key);
  field.clear();
  for (const toml::node& one : *given.node->as_array()) {
    if (!one.is_integer()) given.refuse(fmt::format("{}, got {}", must_be(key), Given{&one, "", given.place}.shown()));
    field.push_back(one.as_integer()->get());
  }
}

void assign(double& field, const Given& given, const ConfigKey& key) {
  if (!given.node || !given.node->is_number()) refuse(given, key);
  // node->value<double>() would refuse integers above 2^53.
  const auto* integer = given.node->as_integer();
  field = integer ? double(integer->get()) : given.node->as_floating_point()->get();
  if (!key.range.contains(field)) refuse(given, key);
}

// As NormalizerOptions takes it, and always the same for the same value.
std::string option_text(const Given& given) {
  const toml::node* node = given.node;
  if (node && node->is_boolean()) return node->as_boolean()->get() ? "true" : "false";
  if (node && node->is_integer()) return fmt::format("{}", node->as_integer()->get());
  // The sum is 0.0 for -0.0 too, whose text "-0" would be read back as an integer without a sign.
  if (node && node->is_floating_point()) return fmt::format("{}", node->as_floating_point()->get() + 0.0);
  return given.text("must be a number, true, false or text");
}

// Takes norm.NAME.OPTION out of `given`.
void take_options(GivenKeys& given, ExperimentConfig& config) {
  for (auto it = given.begin(); it != given.end();) {
    const auto& [key, value] = *it;
    const std::size_t dot = key.find('.'), second = key.find('.', dot + 1);
    if (key.substr(0, dot) != "norm" || second == std::string::npos) {
      ++it;
      continue;
    }
    const std::string name = key.substr(dot + 1, second - dot - 1), option = key.substr(second + 1);
    try {
      const NormalizerInfo& info = normalizer_info(name);
      const std::string text = option_text(value);
      const NormalizerOptions given_one(name, info.options, {{option, text}});
      const bool is_flag = std::ranges::find(info.options, option, &Option::name)->kind == Option::Kind::flag;
      config.norm_options[name][option] = !is_flag ? text : given_one.flag(option) ? "true" : "false";
    } catch (const std::invalid_argument& e) {
      value.refuse(e.what());
    }
    it = given.erase(it);
  }
}

// The family that has the key where `family` has not; empty if there is none.
std::string other_family_of(const std::string& key, const std::string& family) {
  for (const char* other : kFamiliesWithKeys) {
    ExperimentConfig config;
    config.family = other;
    bool has = false;
    visit_config(config, [&](auto&, const ConfigKey& k) { has = has || k.full_name() == key; });
    if (has && other != family) return other;
  }
  return "";
}

// Two keys for the same: that of updates, and that of epochs.
void refuse_both(const GivenKeys& given, const ExperimentConfig& config) {
  const auto refuse_beside = [&given](const char* updates, const char* epochs, std::int64_t value) {
    const auto found = given.find(updates);
    if (value > 0 && found != given.end())
      found->second.refuse(fmt::format("{} cannot be given beside {} = {}, which decides; {} = 0 makes it a key again",
                                       updates, epochs, value, epochs));
  };
  refuse_beside("train.steps", "train.epochs", config.train.epochs);
  refuse_beside("train.warmup", "train.warmup_epochs", config.train.warmup_epochs);
}

ExperimentConfig config_of(GivenKeys given) {
  ExperimentConfig config;
  std::vector<std::string> known;
  Given norm_name;
  visit_config(config, [&](auto& field, const ConfigKey& key) {
    known.push_back(key.full_name());
    const auto found = given.find(known.back());
    if (found == given.end()) return;
    assign(field, found->second, key);
    if (known.back() == "norm.name") norm_name = found->second;
    given.erase(found);
  });
  try {
    (void)normalizer_info(config.blocks().normalizer);
  } catch (const std::invalid_argument& e) {
    norm_name.refuse(e.what());
  }
  take_options(given, config);
  refuse_both(given, config);
  if (!given.empty()) {
    const auto& [key, value] = *given.begin();
    const std::string other = other_family_of(key, config.family);
    if (!other.empty())
      value.refuse(
          fmt::format("{} is a key of model.family = \"{}\", not of {}", key, other, in_quotes(config.family)));
    value.refuse(fmt::format("there is no key {}{}", key, did_you_mean(key, known)));
  }
  BlockConfig& blocks = config.blocks();
  if (const auto found = config.norm_options.find(blocks.normalizer); found != config.norm_options.end())
    blocks.normalizer_options = found->second;
  return config;
}

}  // namespace

ExperimentConfig parse_config(const std::string& text, const std::string& name,
                              const std::vector<std::string>& settings) {
  const toml::table file = parse_toml(text, name);
  GivenKeys given;
  flatten(file, "", name, given);
  std::vector<toml::table> values(settings.size());
  for (std::size_t i = 0; i < settings.size(); ++i) apply_setting(settings[i], values[i], given);
  return config_of(std::move(given));
}

ExperimentConfig read_config(const std::string& path, const std::vector<std::string>& settings) {
  return parse_config(read_file(path), path, settings);
}

}  // namespace foldgrad
