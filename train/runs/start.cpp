#include "train/runs/start.h"

#include <filesystem>

#include "engine/files/file.h"
#include "train/checkpoints/files.h"
#include "train/data/data_root.h"
#include "train/runs/resume.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

std::optional<NewestCheckpoint> find_checkpoint(const TrainOptions& options, const RunDirectory& run) {
  std::error_code ignored;
  if (options.resume.empty()) {
    run.require_no_run();
    return std::nullopt;
  }
  if (options.resume != "latest") {
    if (!fs::equivalent(fs::path(options.resume + "/..").lexically_normal(), run.checkpoints(), ignored))
      throw CheckpointError(fmt::format("{}: must be a directory in {}", options.resume, run.checkpoints()));
    return NewestCheckpoint{options.resume, load_checkpoint(options.resume), {}};
  }
  if (!checkpoint_files::steps_in(run.checkpoints()).empty()) return load_newest_checkpoint(run.checkpoints());
  say("there is no {} yet: beginning at step 0\n", run.has_run() ? "checkpoint" : "run");
  return std::nullopt;
}

// Where the data of a run that goes on came from, if that is still there.
std::string find_data_root(const TrainOptions& options, const RunDirectory& run) {
  std::error_code ignored;
  if (options.data_directory.empty() && !options.resume.empty() && fs::exists(run.environment(), ignored)) {
    const auto environment = nlohmann::json::parse(read_file(run.environment()), nullptr, /*allow_exceptions=*/false);
    if (environment.is_object() && environment.contains("data_root") && environment["data_root"].is_string())
      if (const std::string root = environment["data_root"]; fs::is_directory(root, ignored)) return root;
  }
  return fs::absolute(data_root(options.data_directory));
}

}  // namespace

RunStart find_start(const TrainOptions& options) {
  const RunDirectory run(options.out);
  RunStart start{read_config(options.config, options.settings), find_data_root(options, run),
                 find_checkpoint(options, run)};
  if (!start.checkpoint) return start;
  for (const std::string& warning : start.checkpoint->warnings) say("warning: {}\n", warning);
  require_same_trajectory(*start.checkpoint, start.config, run.config(), options.allow_config_change);
  return start;
}

}  // namespace foldgrad
