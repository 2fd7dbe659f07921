#include "train/commands/usage_hint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "models/options/nearest_name.h"

namespace foldgrad {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& level) {
  return level.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::Option* find_option(const std::vector<const CLI::App*>& levels, const std::string& name) {
  for (const CLI::App* level : levels)
    for (const CLI::Option* option : level->get_options())
      if (option->check_name(name)) return option;
  return nullptr;
}

std::string no_command(const CLI::App& level, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(level)) names.push_back(command->get_name());
  return fmt::format("there is no command \"{}\"{}", word, did_you_mean(word, names, "\""));
}

std::string no_option(const std::vector<const CLI::App*>& levels, const std::string& name) {
  std::vector<std::string> names;
  for (const CLI::App* level : levels)
    for (const CLI::Option* option : level->get_options())
      for (const std::string& long_name : option->get_lnames()) names.push_back("--" + long_name);
  return fmt::format("there is no option {}{}", name, did_you_mean(name, names));
}

}  // namespace

std::string usage_hint(const CLI::App& program, const std::vector<std::string>& arguments) {
  std::vector<const CLI::App*> levels{&program};  // the program, its command, and that one's
  std::string unknown;                            // an option; those of a command may stand before its name
  bool value = false;                             // whether an option takes the argument
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    if (argument.rfind("--", 0) == 0 && argument.size() > 2) {
      const CLI::Option* option = find_option(levels, name);
      if (!option && unknown.empty()) unknown = name;
      value = option && option->get_items_expected_max() > 0 && name == argument;
      continue;
    }
    const std::vector<const CLI::App*> commands = commands_of(*levels.back());
    if (value || argument.empty() || argument[0] == '-' || commands.empty()) {
      value = false;
      continue;
    }
    const auto is_it = [&](const CLI::App* command) { return command->get_name() == argument; };
    const auto found = std::ranges::find_if(commands, is_it);
    if (found == commands.end()) return no_command(*levels.back(), argument);
    levels.push_back(*found);
  }
  return unknown.empty() || find_option(levels, unknown) ? "" : no_option(levels, unknown);
}

std::vector<std::string> with_help_as_option(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
  return arguments;
}

}  // namespace foldgrad
