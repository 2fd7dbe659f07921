// foldgrad config: what can be configured, and what a configuration comes to.
#include "train/config/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "engine/check.h"
#include "train/commands/commands.h"
#include "train/runs/setup.h"
#include "train/system/exit_code.h"

namespace foldgrad {

Action add_config(CLI::App& command) {
  struct Options {
    std::string file;
    std::vector<std::string> settings;
  };
  const auto options = std::make_shared<Options>();
  const CLI::Option* file = command.add_option("CONFIG", options->file, "Configuration, TOML");
  command.add_option("--set", options->settings, "SECTION.KEY=VALUE, overrides CONFIG")->allow_extra_args(false);
  command.footer("Exit codes: 0, 2 configuration, 3 the file cannot be read.");
  return [options, file] {
    if (file->count() == 0 && options->settings.empty()) {
      fmt::print("{}", config_help());
      return kExitOk;
    }
    FOLDGRAD_CHECK(file->count() == 0 || !options->file.empty(), "CONFIG must name a file, got \"\"");
    const ExperimentConfig config =
        file->count() == 0 ? parse_config("", "", options->settings) : read_config(options->file, options->settings);
    require_trainable(config);
    fmt::print("{}", config_text(config));
    return kExitOk;
  };
}

}  // namespace foldgrad
