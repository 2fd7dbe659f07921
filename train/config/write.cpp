#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/check.h"
#include "models/normalizers/normalizer.h"
#include "train/config/config.h"
#include "train/system/digest.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

// Returns a JSON string with DEL escaped, which is also a TOML string.
std::string quoted(const std::string& text) {
  FOLDGRAD_CHECK(first_bad_utf8(text) == text.npos, "config: text must be UTF-8");
  std::string all = nlohmann::json(text).dump();
  for (std::size_t at; (at = all.find('\x7f')) != std::string::npos;) all.replace(at, 1, "\\u007F");
  return all;
}

std::string toml_of(const std::string& value) { return quoted(value); }
std::string toml_of(bool value) { return value ? "true" : "false"; }
std::string toml_of(std::int64_t value) { return fmt::format("{}", value); }
// Writes -0.0 with its point, since TOML would read "-0" as an integer, which has no negative zero.
std::string toml_of(double value) { return value == 0 && std::signbit(value) ? "-0.0" : fmt::format("{}", value); }

template <class Element>
std::string toml_of(const std::vector<Element>& values) {
  std::vector<std::string> texts;
  for (const Element& value : values) texts.push_back(toml_of(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string toml_of(const Option& option, const std::string& value) {
  if (option.kind == Option::Kind::choice) return quoted(value);
  if (option.kind == Option::Kind::flag) return value == "1" || value == "true" ? "true" : "false";
  return value;
}

std::string norm_tables(const ExperimentConfig& config) {
  auto tables = config.norm_options;
  tables[config.blocks().normalizer];  // adds a table for the chosen normalizer, to show its defaults
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

// The lines of each section, in order of first appearance. The task's keys and the common ones may be in one section,
// for instance [train], which is then filled twice.
using Sections = nlohmann::ordered_map<std::string, std::string>;

void add_to(Sections& sections, const std::string& section, const std::string& lines) {
  sections.emplace(section, fmt::format("[{}]\n", section)).first->second += lines;
}

std::string text_of(const Sections& sections) {
  std::string text;
  for (const auto& [section, lines] : sections) text += (text.empty() ? "" : "\n") + lines;
  return text;
}

}  // namespace

std::vector<KeyWithValue> keys_of(ExperimentConfig config) {
  std::vector<KeyWithValue> all;
  visit_config(config, [&](const auto& member, const ConfigKey& key) { all.push_back({key, toml_of(member)}); });
  return all;
}

std::vector<KeyWithValue> default_keys(const std::string& family) { return keys_of(ExperimentConfig(family)); }

std::string config_text(const ExperimentConfig& config) {
  Sections sections;
  for (const auto& [key, value] : keys_of(config))
    add_to(sections, key.section, fmt::format("{} = {}\n", key.name, value));
  add_to(sections, "norm", norm_tables(config));
  return text_of(sections);
}

std::string config_help() {
  std::string text;
  std::map<std::string, std::string> before;  // the previous family's lines, by key
  for (const std::string& family : family_names()) {
    if (!text.empty())
      text += fmt::format("\nWith model.family = \"{}\", these keys differ from those above:\n\n", family);
    Sections sections;
    std::map<std::string, std::string> lines;
    for (const auto& [key, value] : default_keys(family)) {
      if (key.full_name() == "model.family" && !before.empty()) continue;
      const std::string line = fmt::format("  {:<20}{}: {}{} (default {})\n", key.name, key.help, key.values(),
                                           key.unit.empty() ? "" : ", " + key.unit, value);
      lines[key.full_name()] = line;
      if (const auto same = before.find(key.full_name()); same != before.end() && same->second == line) continue;
      add_to(sections, key.section, line);
    }
    text += text_of(sections);
    before = std::move(lines);
  }
  return text +
         "\n[norm.NAME]\n  Options of the normalizer NAME; `foldgrad norms NAME` lists them with their "
         "defaults.\n\nbase = \"FILE\"\n  Goes before all sections and names another configuration, relative to this "
         "file; keys given here override its keys.\n";
}

std::string key_named(std::string name) {
  std::ranges::replace(name, '-', '_');
  for (const std::string& family : family_names())
    for (const auto& [key, value] : default_keys(family))
      if (key.name == name) return key.full_name();
  return "";
}

std::string with_keys(const ExperimentConfig& config, const std::string& message) {
  const std::string& norm = config.blocks().normalizer;
  const std::size_t colon = message.find(": ");
  const std::string who = message.substr(0, colon);
  if (colon == message.npos || (who != config.family && who != norm)) return message;
  std::map<std::string, std::string> keys;  // the full name of each key, by its name in messages
  if (who == norm) {
    for (const NormalizerOption& option : normalizer_info(norm).options)
      keys[option.name] = fmt::format("norm.{}.{}", norm, option.name);
  } else {
    for (const auto& [key, value] : keys_of(config)) keys.emplace(key.name, key.full_name());
    keys["normalizer"] = "norm.name";
  }
  std::istringstream text(message.substr(colon + 2));
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  const bool begins_with_key = keys.contains(words.at(0));
  for (std::size_t i = 0; i < words.size(); ++i)
    if (keys.contains(words[i]) && (i == 0 || (i + 1 < words.size() && words[i + 1] == "="))) words[i] = keys[words[i]];
  const std::string place = who == norm ? fmt::format("norm.name = \"{}\": ", norm) : "[model]: ";
  return fmt::format("{}{}", begins_with_key ? "" : place, fmt::join(words, " "));
}

NormWarmup norm_warmup(const BlockConfig& config) {
  const NormalizerInfo& info = normalizer_info(config.normalizer);
  if (!info.warmup) return {};
  const NormalizerOptions chosen(info.name, info.options, config.normalizer_options);
  const NormalizerWarmup warmup = info.warmup(chosen);
  std::vector<std::string> keys;
  for (const std::string& option : warmup.options)
    keys.push_back(fmt::format("norm.{}.{} = {}", info.name, option, chosen.text(option)));
  return {warmup.iterations, fmt::format("{}", fmt::join(keys, ", ")), warmup.meanwhile};
}

std::map<std::string, std::string> trajectory_keys(const ExperimentConfig& config) {
  std::map<std::string, std::string> keys, newer_defaults;
  for (const auto& [key, value] : default_keys(config.family))
    if (key.newer) newer_defaults[key.full_name()] = value;
  for (const auto& [key, value] : keys_of(config)) {
    const bool is_left_out = key.newer && newer_defaults.at(key.full_name()) == value;
    if (key.trajectory && !is_left_out) keys[key.full_name()] = value;
  }
  const std::string& name = config.blocks().normalizer;
  const NormalizerInfo& info = normalizer_info(name);
  const NormalizerOptions chosen(name, info.options, config.blocks().normalizer_options);
  for (const NormalizerOption& option : info.options)
    if (!option.newer || config.blocks().normalizer_options.count(option.name))
      keys[fmt::format("norm.{}.{}", name, option.name)] = toml_of(option, chosen.text(option.name));
  // Adds keys of version 0.3 with their only remaining values, so that runs of that version can be resumed.
  if (config.family == default_family().name) keys["norm.mask"] = "true";
  if (name == "un") keys["norm.un.mask"] = "\"valid\"";
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
      changes.push_back(fmt::format("{} was {} and is now {}", key, value(old_keys, key), value(new_keys, key)));
  return changes;
}

}  // namespace foldgrad
