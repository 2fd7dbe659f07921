// foldgrad config: what can be configured, and what a configuration comes to.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "train/commands.h"
#include "train/config.h"
#include "train/exit_codes.h"

namespace foldgrad {

void add_config_command(CLI::App& program, int& exit_code) {
  struct Options {
    std::string file;
    std::vector<std::string> settings;
  };
  CLI::App* command = program.add_subcommand(
      "config", "List every key of a configuration; or check one, and print it with all defaults filled in");
  const auto options = std::make_shared<Options>();
  command->add_option("CONFIG", options->file, "Configuration, TOML");
  command->add_option("--set", options->settings, "SECTION.KEY=VALUE, over what CONFIG says")->allow_extra_args(false);
  command->footer("Exit codes: 0, 2 configuration, 3 the file cannot be read.");
  command->callback([options, &exit_code] {
    if (options->file.empty() && options->settings.empty())
      fmt::print("{}", config_help());
    else if (options->file.empty())
      fmt::print("{}", config_text(parse_config("", "", options->settings)));
    else
      fmt::print("{}", config_text(read_config(options->file, options->settings)));
    exit_code = kExitOk;
  });
}

}  // namespace foldgrad
