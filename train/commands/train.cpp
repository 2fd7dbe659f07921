// foldgrad train: the command line of train/runs/training_run.h.
#include <filesystem>
#include <utility>

#include "engine/files/atomic_file.h"
#include "train/checkpoints/checkpoint.h"
#include "train/commands/command.h"
#include "train/reports/report.h"
#include "train/runs/directory.h"
#include "train/runs/training_run.h"
#include "train/system/printable.h"
#include "train/system/signals.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

// Resolves a value of --resume other than "latest": a run or one of its checkpoints. Since the value is optional,
// --resume may have taken the next word, CONFIG, by mistake.
void complete(TrainOptions& o) {
  std::error_code ignored;
  if (!o.resume.empty() && o.resume != "latest") {
    if (o.out.empty() && !fs::exists(o.resume, ignored))
      throw std::invalid_argument(fmt::format("--resume: there is no run or checkpoint {}", in_quotes(o.resume)));
    if (o.config.empty() && !fs::is_directory(o.resume, ignored)) {
      o.config = std::exchange(o.resume, "latest");
    } else {
      const auto normal = [](const fs::path& path) {
        const fs::path shorter = path.lexically_normal();
        return shorter.has_filename() ? shorter : shorter.parent_path();  // removes a slash at the end
      };
      fs::path path = normal(o.resume);
      if (path.filename() == "checkpoints") path = normal(path / "..");
      // If the working directory is the directory of the checkpoints, a checkpoint's path is only its name.
      const bool checkpoint = path.parent_path().filename() == "checkpoints" ||
                              (checkpoint_files::step_of(path) >= 0 && !fs::exists(path / "config.toml", ignored));
      if (o.out.empty()) o.out = checkpoint ? normal(path / "../..") : path;
      if (!checkpoint && fs::equivalent(path, o.out, ignored)) o.resume = "latest";
    }
  }
  if (o.out.empty()) throw CLI::RequiredError("--out");
  if (o.config.empty() && !o.resume.empty() && fs::exists(RunDirectory(o.out).config(), ignored))
    o.config = RunDirectory(o.out).config();
  if (o.config.empty()) throw CLI::RequiredError("CONFIG");
}

void write_report(const RunDirectory& run) try {
  write_file_atomically(run.report(), report_html({read_run_log(run.path())}));
} catch (const std::exception& e) {  // only a warning, since everything else has been saved
  say("warning: no report: {}\n", e.what());
}

Answer train(const TrainOptions& options) {
  const bool first = !options.processes || options.processes->rank() == 0;
  leave_when_interrupted(/*quietly=*/!first);
  const TrainingEnd end = train_experiment(options);
  if (end.exit_code == kExitOk && first) write_report(RunDirectory(options.out));
  end_when_interrupted();  // the demo continues with other commands
  return {.text = end.text, .exit_code = end.exit_code};
}

}  // namespace

Action add_train(CLI::App& command, const BuildInfo& build, const std::vector<std::string>& arguments) {
  const auto options = std::make_shared<TrainOptions>();
  options->build = build;
  options->device = "auto";
  options->command = arguments;
  options->began = note_interrupts;
  options->stop = interrupted;
  command.add_option("CONFIG", options->config,
                     "TOML configuration; with --resume, the default is the run's configuration");
  command.add_option("--out", options->out, "Directory of the run");  // required, see complete()
  add_settings_option(command, options->settings);
  add_data_dir_option(command, options->data_directory);
  add_device_option(command, options->device);
  command
      .add_option("--resume", options->resume,
                  "Resume from the newest checkpoint in --out (latest), from the newest checkpoint of the run at this "
                  "path, or from the checkpoint at this path")
      ->expected(0, 1)
      ->default_str("latest");
  command.add_flag("--allow-config-change", options->allow_config_change,
                   "Allow resuming with a different configuration or different data");
  command.add_flag("--profile-communication", options->profile_communication,
                   "Print how long ranks waited for each other (docs/parallel.md)");
  add_number(
      command, "--communication-timeout", options->timeout, 1e-3, 1e6,
      "Number of seconds that a rank waits for another rank, and at the beginning for the other processes to start");
  command.footer(
      "Exit codes: 0 success, 2 configuration error, 3 data or disk error, 4 a checkpoint cannot be loaded, 5 training "
      "diverged, 6 device error, 130 interrupted after saving.");
  return [options] {
    complete(*options);
    return launched(options->device, options->timeout, [&](Processes* processes) {
      options->processes = processes;
      return train(*options);
    });
  };
}

}  // namespace foldgrad
