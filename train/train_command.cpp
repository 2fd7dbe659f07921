// foldgrad train: the command line of training_run.h.
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "train/commands.h"
#include "train/training_run.h"

namespace foldgrad {

void add_train_command(CLI::App& program, int& exit_code, const BuildInfo& build,
                       const std::vector<std::string>& arguments) {
  CLI::App* command = program.add_subcommand("train", "Train a Transformer on parallel text (docs/training.md)");
  const auto options = std::make_shared<TrainOptions>();
  options->build = build;
  options->command = arguments;
  command->add_option("CONFIG", options->config, "Configuration, TOML");  // required, see below
  command->add_option("--out", options->out, "Directory of the run")->required();
  command->add_option("--set", options->settings, "SECTION.KEY=VALUE, over what CONFIG says")->allow_extra_args(false);
  command->add_option("--data-dir", options->data_directory, "Below it lies data.directory; before $FOLDGRAD_DATA");
  command->add_option("--device", options->device, "Where: cpu, cuda, or emulated: CUDA kernels on the host")
      ->check(CLI::IsMember({"cpu", "cuda", "emulated"}))
      ->capture_default_str();
  command
      ->add_option("--resume", options->resume,
                   "Go on from the newest checkpoint in --out (latest), or from the one at this path")
      ->expected(0, 1)
      ->default_str("latest");
  command->add_flag("--allow-config-change", options->allow_config_change, "Resume with another configuration");
  command->footer(
      "Exit codes: 0, 2 configuration, 3 data or disk, 4 checkpoint, 5 diverged, 6 device, 130 interrupted after "
      "saving.");
  command->callback([options, &exit_code] {
    // --resume, whose value may be left out, takes the word behind it, which may be CONFIG.
    if (options->config.empty() && options->resume != "latest")
      options->config = std::exchange(options->resume, "latest");
    if (options->config.empty()) throw CLI::RequiredError("CONFIG");
    exit_code = train_experiment(*options);
  });
}

}  // namespace foldgrad
