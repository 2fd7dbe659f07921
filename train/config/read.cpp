#include <fmt/format.h>

#include <algorithm>

#include "engine/files/file.h"
#include "models/normalizers/normalizer.h"
#include "models/options/nearest_name.h"
#include "train/config/config.h"
#include "train/config/given.h"
#include "train/system/printable.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

using Keys = std::map<std::string, Given>;  // by their full names, SECTION.KEY or norm.NAME.OPTION

std::string must_be(const ConfigKey& key) { return fmt::format("{} must be {}", key.full_name(), key.values()); }

[[noreturn]] void refuse(const Given& given, const ConfigKey& key) {
  given.refuse(fmt::format("{}, got {}", must_be(key), given.shown()));
}

void assign(std::string& field, const Given& given, const ConfigKey& key) {
  field = given.text(must_be(key));
  if (key.kind == Option::Kind::choice && !key.has_choice(field))
    given.refuse(fmt::format("{}, got {}", must_be(key), in_quotes(field)));
  if (first_bad_utf8(field) != field.npos) given.refuse(key.full_name() + " must be UTF-8");
}

template <class Exact>
requires std::same_as<Exact, bool> || std::same_as<Exact, std::int64_t>
void assign(Exact& field, const Given& given, const ConfigKey& key) {
  const auto value = given.node ? given.node->value_exact<Exact>() : std::nullopt;
  if (!value || !key.range.contains(double(*value))) refuse(given, key);
  field = *value;
}

template <class Element>
void assign(std::vector<Element>& field, const Given& given, const ConfigKey& key) {
  if (!given.node || !given.node->is_array()) refuse(given, key);
  field.clear();
  for (const toml::node& one : *given.node->as_array()) {
    const auto* element = one.as<Element>();
    bool fits = element != nullptr;
    if constexpr (std::same_as<Element, std::int64_t>) fits = fits && key.range.contains(double(element->get()));
    if (!fits) given.refuse(fmt::format("{}, got {}", must_be(key), Given{&one, "", given.place}.shown()));
    field.push_back(element->get());
  }
}

void assign(double& field, const Given& given, const ConfigKey& key) {
  if (!given.node || !given.node->is_number()) refuse(given, key);
  // node->value<double>() would reject integers above 2^53.
  const auto* integer = given.node->as_integer();
  field = integer ? double(integer->get()) : given.node->as_floating_point()->get();
  if (!key.range.contains(field)) refuse(given, key);
}

// Returns the value of norm.NAME.OPTION as NormalizerOptions takes it. Equal values give equal strings.
std::string option_text(const std::string& key, const Given& given) {
  const toml::node* node = given.node;
  if (node && node->is_boolean()) return node->as_boolean()->get() ? "true" : "false";
  if (node && node->is_integer()) return fmt::format("{}", node->as_integer()->get());
  // + 0.0 turns -0.0 into 0.0; "-0" would be read back as an integer without a sign.
  if (node && node->is_floating_point()) return fmt::format("{}", node->as_floating_point()->get() + 0.0);
  return given.text(key + " must be a number, true, false or text");
}

// Returns an accepted value as TOML, which rejects .9 and 02, and reads -0 as an integer.
std::string text_in_toml(const NormalizerOptions& options, const Option& option, const Given& given) {
  const std::string& name = option.name;
  const bool is_number = given.node && given.node->is_number();
  if (option.kind == Option::Kind::flag) return options.flag(name) ? "true" : "false";
  if (option.kind == Option::Kind::integer) return fmt::format("{}", options.integer(name));
  if (option.kind == Option::Kind::number && !is_number) return fmt::format("{}", options.number(name) + 0.0);
  return options.text(name);
}

// Moves every norm.NAME.OPTION from `given` to `config`.
void take_options(Keys& given, ExperimentConfig& config) {
  std::erase_if(given, [&config](const auto& one) {
    const auto& [key, value] = one;
    const std::size_t dot = key.find('.'), second = key.find('.', dot + 1);
    if (key.substr(0, dot) != "norm" || second == std::string::npos) return false;
    const std::string name = key.substr(dot + 1, second - dot - 1), option = key.substr(second + 1);
    try {
      const NormalizerInfo& info = normalizer_info(name);
      const std::string text = option_text(key, value);
      const NormalizerOptions given_one(name, info.options, {{option, text}});
      config.norm_options[name][option] =
          text_in_toml(given_one, *std::ranges::find(info.options, option, &Option::name), value);
    } catch (const std::invalid_argument& e) {
      value.refuse(e.what());
    }
    return true;
  });
}

// Returns another family that has this key, or an empty string if there is none.
std::string other_family_of(const std::string& key, const std::string& family) {
  for (const std::string& other : family_names())
    for (const auto& [its_key, value] : default_keys(other))
      if (its_key.full_name() == key && other != family) return other;
  return "";
}

// Removes the padding keys of version 0.3 from `given`. Throws if a value asks for a behaviour that no longer exists.
void take_former_keys(Keys& given) {
  for (const auto& [key, only] : {std::pair("norm.mask", "true"), {"norm.un.mask", "valid"}})
    if (const auto found = given.extract(key); found && option_text(key, found.mapped()) != only)
      found.mapped().refuse(fmt::format("{} is no longer a key, since models do not compute padding; remove it", key));
}

// Rejects a key that counts updates if its counterpart that counts epochs is also given.
void refuse_updates_beside_epochs(const Keys& given, const ExperimentConfig& config) {
  const auto refuse_beside = [&given](const char* updates, const char* epochs, std::int64_t value) {
    const auto found = given.find(updates);
    if (value > 0 && found != given.end())
      found->second.refuse(
          fmt::format("set {} or {}, not both; {} is {}, and 0 turns epochs off", updates, epochs, epochs, value));
  };
  refuse_beside("train.steps", "train.epochs", config.train.epochs);
  refuse_beside("train.warmup", "train.warmup_epochs", config.train.warmup_epochs);
}

// Rejects two contradicting values. The error is reported at the value that was set with --set or, if neither was, at
// the first value.
template <class Value>
[[noreturn]] void refuse_both(const Keys& given, const char* first, Value a, const char* relation, const char* second,
                              Value b) {
  const auto place = [&given](const char* key) {
    const auto found = given.find(key);
    return found == given.end() ? "its default" : found->second.place;
  };
  const bool at_second = place(second).starts_with("--set") || !given.contains(first);
  const auto shown = [&](const char* key, Value value, bool at) {
    return fmt::format("{} = {}{}", key, value, at ? "" : " (" + place(key) + ")");
  };
  throw ConfigError(fmt::format("{}: {} must {} {}", place(at_second ? second : first), shown(first, a, !at_second),
                                relation, shown(second, b, at_second)));
}

void check_schedule(const Keys& given, const TrainConfig& t) {
  if (t.schedule == ScheduleShape::cosine) {
    const char* above = "be above the warm-up,";
    if (t.epochs == 0 && t.warmup_epochs == 0 && t.steps <= t.warmup)
      refuse_both(given, "train.steps", t.steps, above, "train.warmup", t.warmup);
    if (t.epochs > 0 && t.epochs <= t.warmup_epochs)
      refuse_both(given, "train.epochs", t.epochs, above, "train.warmup_epochs", t.warmup_epochs);
    if (t.minimum_lr > t.lr) refuse_both(given, "train.minimum_lr", t.minimum_lr, "be at most", "train.lr", t.lr);
  }
  if (t.schedule == ScheduleShape::inverse_sqrt && t.warmup_epochs == 0 && t.warmup < 1)
    given.at("train.warmup").refuse("train.warmup must be at least 1 with train.schedule = \"inverse_sqrt\", got 0");
  if (t.initial_lr > t.lr) refuse_both(given, "train.initial_lr", t.initial_lr, "be at most", "train.lr", t.lr);
}

ExperimentConfig config_of(Keys given) {
  const Keys all = given;
  take_former_keys(given);
  ExperimentConfig config;
  std::vector<std::string> known{"base"};
  visit_config(config, [&](auto& field, const ConfigKey& key) {
    known.push_back(key.full_name());
    if (const auto found = given.extract(known.back())) assign(field, found.mapped(), key);
  });
  try {
    (void)normalizer_info(config.blocks().normalizer);
  } catch (const std::invalid_argument& e) {
    all.at("norm.name").refuse(e.what());
  }
  take_options(given, config);
  refuse_updates_beside_epochs(given, config);
  if (!given.empty()) {
    const auto& [key, value] = *given.begin();
    const std::string other = other_family_of(key, config.family);
    if (!other.empty())
      value.refuse(
          fmt::format("{} is a key of model.family = \"{}\", not of {}", key, other, in_quotes(config.family)));
    value.refuse(fmt::format("there is no key {}{}", key, did_you_mean(key, known)));
  }
  check_schedule(all, config.train);
  BlockConfig& blocks = config.blocks();
  blocks.normalizer_options.clear();  // drops the options of the family's default normalizer
  if (const auto found = config.norm_options.find(blocks.normalizer); found != config.norm_options.end())
    blocks.normalizer_options = found->second;
  return config;
}

}  // namespace

ExperimentConfig parse_config(const std::string& text, const std::string& name,
                              const std::vector<std::string>& settings) {
  GivenKeys given;
  given.add_file(text, name);
  for (const std::string& setting : settings) given.add_setting(setting);
  return config_of(given.keys);
}

ExperimentConfig read_config(const std::string& path, const std::vector<std::string>& settings) {
  return parse_config(read_file(path), path, settings);
}

}  // namespace foldgrad
