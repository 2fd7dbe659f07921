#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/normalizers/normalizer.h"
#include "train/config/keys.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

// JSON's strings are TOML's too, but for DEL.
std::string quoted(const std::string& text) {
  std::string all;
  try {
    all = nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument("config: text must be UTF-8");
  }
  for (std::size_t at; (at = all.find('\x7f')) != std::string::npos;) all.replace(at, 1, "\\u007F");
  return all;
}

std::string toml_of(const std::string& value) { return quoted(value); }
std::string toml_of(bool value) { return value ? "true" : "false"; }
std::string toml_of(std::int64_t value) { return fmt::format("{}", value); }
std::string toml_of(const std::vector<std::int64_t>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
// "-0" would be read as an integer, which has no sign there.
std::string toml_of(double value) { return value == 0 && std::signbit(value) ? "-0.0" : fmt::format("{}", value); }

std::string toml_of(const Option& option, const std::string& value) {
  if (option.kind == Option::Kind::choice) return quoted(value);
  if (option.kind == Option::Kind::flag) return value == "1" || value == "true" ? "true" : "false";
  return value;
}

std::string norm_tables(const ExperimentConfig& config) {
  auto tables = config.norm_options;
  tables[config.blocks().normalizer];  // the chosen one's, to show its defaults
  std::string text;
  for (const auto& [name, given] : tables) {
    text += fmt::format("\n[norm.{}]\n", name);
    const NormalizerInfo& info = normalizer_info(name);
    const NormalizerOptions chosen(name, info.options, given);
    for (const NormalizerOption& option : info.options)
      text += fmt::format("{}{} = {}\n", given.count(option.name) ? "" : "# ", option.name,
                          toml_of(option, chosen.text(option.name)));
  }
  return text;
}

}  // namespace

std::string config_text(const ExperimentConfig& config) {
  std::string text, section;
  visit_config(config, [&](const auto& field, const ConfigKey& key) {
    if (key.section != section) {
      // Its tables end [norm]: behind another section they would be valid too, but hard to find.
      if (section == "norm") text += norm_tables(config);
      text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section);
    }
    section = key.section;
    text += fmt::format("{} = {}\n", key.name, toml_of(field));
  });
  return text;
}

std::string config_help() {
  std::string text;
  std::map<std::string, std::string> before;  // the lines of the family before, by key
  for (const char* family : kFamiliesWithKeys) {
    ExperimentConfig defaults;
    defaults.family = family;
    std::string section;
    if (!text.empty())
      text += fmt::format("\nWith model.family = \"{}\", these differ from the ones above:\n\n", family);
    std::map<std::string, std::string> lines;
    visit_config(defaults, [&](const auto& field, const ConfigKey& key) {
      if (key.full_name() == "model.family" && !before.empty()) return;
      const std::string line = fmt::format("  {:<20}{}: {}{} (default {})\n", key.name, key.help, key.values(),
                                           key.unit.empty() ? "" : ", " + key.unit, toml_of(field));
      lines[key.full_name()] = line;
      if (const auto same = before.find(key.full_name()); same != before.end() && same->second == line) return;
      if (key.section != section) text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section);
      section = key.section;
      text += line;
    });
    before = std::move(lines);
  }
  return text +
         "\n[norm.NAME]\n  Options of the normalizer NAME; `foldgrad norms` lists them with their defaults.\n"
         "\nbase = \"FILE\"\n  Before all sections: another configuration, relative to this file; keys given here "
         "replace its own.\n";
}

std::map<std::string, std::string> trajectory_keys(const ExperimentConfig& config) {
  std::map<std::string, std::string> keys;
  visit_config(config, [&](const auto& field, const ConfigKey& key) {
    if (key.trajectory && key.in_hash) keys[key.full_name()] = toml_of(field);
  });
  const std::string& name = config.blocks().normalizer;
  const NormalizerInfo& info = normalizer_info(name);
  const NormalizerOptions chosen(name, info.options, config.blocks().normalizer_options);
  for (const NormalizerOption& option : info.options)
    keys[fmt::format("norm.{}.{}", name, option.name)] = toml_of(option, chosen.text(option.name));
  return keys;
}

std::string config_hash(const ExperimentConfig& config) {
  std::string text;
  for (const auto& [key, value] : trajectory_keys(config)) text += key + " = " + value + "\n";
  return sha256(text);
}

std::vector<std::string> trajectory_changes(const ExperimentConfig& before, const ExperimentConfig& now) {
  const auto old_keys = trajectory_keys(before), new_keys = trajectory_keys(now);
  const auto value = [](const auto& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? "absent" : found->second;
  };
  auto all = old_keys;
  all.insert(new_keys.begin(), new_keys.end());
  std::vector<std::string> changes;
  for (const auto& [key, unused] : all)
    if (value(old_keys, key) != value(new_keys, key))
      changes.push_back(fmt::format("{}: {} before, {} now", key, value(old_keys, key), value(new_keys, key)));
  return changes;
}

}  // namespace foldgrad
