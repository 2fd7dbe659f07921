#include <CLI/CLI.hpp>
#include <set>

#include "models/normalizers/normalizer.h"
#include "train/config/config.h"
#include "train/program.h"

namespace foldgrad {
namespace {

using Words = std::vector<std::string>;

Words normalizer_names() {
  Words names;
  for (const NormalizerInfo& info : normalizers()) names.push_back(info.name);
  return names;
}

// Returns SECTION.KEY= for every key, or SECTION.KEY=VALUE if `word` has a complete key whose values have names.
Words settings(const std::string& word) {
  std::set<std::string> all;
  const auto add = [&](const std::string& key, const Option& option) {
    Words values = option.choices;
    if (key == "norm.name") values = normalizer_names();
    if (option.kind == Option::Kind::boolean || option.kind == Option::Kind::flag) values = {"true", "false"};
    if (!word.starts_with(key + "="))
      all.insert(key + "=");
    else
      for (const std::string& value : values) all.insert(key + "=" + value);
  };
  for (const std::string& family : family_names())
    for (const auto& [key, value] : default_keys(family)) add(key.full_name(), key);
  for (const NormalizerInfo& info : normalizers())
    for (const NormalizerOption& option : info.options) add("norm." + info.name + "." + option.name, option);
  return {all.begin(), all.end()};
}

// Returns the named values of an option, such as those in the braces of "TEXT:{f32,f64}".
Words values_of(const CLI::Option& option, const std::string& word) {
  const std::string type = option.get_type_name();
  if (type == "SECTION.KEY=VALUE") return settings(word);
  if (option.check_name("--norm")) return normalizer_names();
  const std::size_t open = type.find('{');
  return open == type.npos ? Words{} : CLI::detail::split(type.substr(open + 1, type.find('}') - open - 1), ',');
}

// Returns the options of a command and of its parent commands.
std::vector<const CLI::Option*> options_of(const CLI::App* command) {
  std::vector<const CLI::Option*> all;
  for (; command; command = command->get_parent())
    for (const CLI::Option* option : command->get_options()) all.push_back(option);
  return all;
}

// Returns the option whose value is the word after `word`, or null if there is none.
const CLI::Option* taker(const CLI::App* command, const std::string& word) {
  if (!word.starts_with('-')) return nullptr;
  for (const CLI::Option* option : options_of(command))
    if (option->check_name(word) && option->get_items_expected_max() > 0) return option;
  return nullptr;
}

// Returns the words that may follow `command`: options if `word` begins like one, otherwise commands or arguments.
Words following(const CLI::App* command, const std::string& word) {
  Words all;
  if (word.starts_with('-')) {
    for (const CLI::Option* option : options_of(command))
      for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
    return all;
  }
  for (const CLI::App* known : command->get_subcommands({})) all.push_back(known->get_name());
  return command->get_name() == "norms" ? normalizer_names() : all;
}

}  // namespace

Words completions(const CLI::App& program, Words words) {
  std::string last = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  if (!words.empty() && words[0] == "help") words.erase(words.begin());
  const CLI::App* command = &program;
  const CLI::Option* open = nullptr;  // the option that takes the next word
  for (const std::string& word : words) {
    if (std::exchange(open, taker(command, word))) {
      open = nullptr;  // this word is a value, even if it begins with a dash
      continue;
    }
    for (const CLI::App* known : command->get_subcommands({}))
      if (known->check_name(word)) command = known;
  }
  std::string before;  // "--dtype=" of "--dtype=f3"
  if (const std::size_t equals = last.find('='); !open && last.starts_with("--") && equals != last.npos)
    if ((open = taker(command, last.substr(0, equals)))) {
      before = last.substr(0, equals + 1);
      last.erase(0, equals + 1);
    }
  std::set<std::string> all;
  for (const std::string& word : open ? values_of(*open, last) : following(command, last))
    if (word.starts_with(last)) all.insert(before + word);
  return {all.begin(), all.end()};
}

}  // namespace foldgrad
