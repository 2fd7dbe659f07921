#include "train/commands/usage_hint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "models/options/nearest_name.h"

namespace foldgrad {

std::string usage_hint(const CLI::App& program) {
  std::vector<std::string> options;
  const CLI::App* command = &program;  // the last that was understood
  for (;;) {
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    const std::vector<CLI::App*> chosen = command->get_subcommands();
    if (chosen.empty()) break;
    command = chosen[0];
  }
  const std::vector<std::string> left_over = program.remaining(/*recurse=*/true);
  for (const std::string& word : left_over) {
    const std::string name = word.substr(0, word.find('='));
    if (name.size() > 2 && name.starts_with("--") && std::ranges::find(options, name) == options.end())
      return fmt::format("there is no option {}{}", name, did_you_mean(name, options));
  }
  std::vector<std::string> commands;
  for (const CLI::App* known : command->get_subcommands({})) commands.push_back(known->get_name());
  if (commands.empty() || left_over.empty() || left_over[0].starts_with('-')) return "";
  return fmt::format("there is no command \"{}\"{}", left_over[0], did_you_mean(left_over[0], commands, "\""));
}

std::vector<std::string> with_help_as_option(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.push_back("--help");
  return arguments;
}

}  // namespace foldgrad
