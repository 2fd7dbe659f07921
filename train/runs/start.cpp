#include "train/runs/start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "engine/files/file.h"
#include "train/data/data_sets.h"
#include "train/runs/directory.h"
#include "train/runs/pretrained.h"
#include "train/runs/ranks.h"
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

// Returns where the data of a run that goes on came from, if that is still there.
std::string find_data_root(const TrainOptions& options, const RunDirectory& run) {
  std::error_code ignored;
  if (options.data_directory.empty() && !options.resume.empty() && fs::exists(run.environment(), ignored)) {
    const auto environment = nlohmann::json::parse(read_file(run.environment()), nullptr, /*allow_exceptions=*/false);
    if (environment.is_object() && environment.contains("data_root") && environment["data_root"].is_string())
      if (const std::string root = environment["data_root"]; fs::is_directory(root, ignored)) return root;
  }
  return fs::absolute(data_root(options.data_directory));
}

// Notes settings of normalizers that the model does not have.
void note_unused(const std::vector<std::string>& settings, const BlockConfig& blocks) {
  for (const std::string& setting : settings) {
    const std::size_t dot = setting.find('.'), end = setting.find('.', dot + 1);
    if (!setting.starts_with("norm.") || end == setting.npos || end > setting.find('=')) continue;
    const std::string name = setting.substr(dot + 1, end - dot - 1);
    const auto at_a_site = [&](const auto& site) { return site.second == name; };
    if (name != blocks.normalizer && std::ranges::none_of(blocks.normalizer_at, at_a_site))
      say("note: --set {} changes nothing: norm.name is {}\n", setting, blocks.normalizer);
  }
}

}  // namespace

RunStart find_start(const TrainOptions& options) {
  const RunDirectory run(options.out);
  RunStart start{read_config(options.config, options.settings), find_data_root(options, run),
                 find_checkpoint(options, run)};
  const int processes = options.processes ? options.processes->count() : 1;
  if (const std::int64_t shards = shards_of(start.config.train, processes); shards > 1)
    start.config.train.shards = shards;
  note_unused(options.settings, start.config.blocks());
  if (!start.checkpoint) return start;
  for (const std::string& warning : start.checkpoint->warnings) say("warning: {}\n", warning);
  require_same_trajectory(*start.checkpoint, start.config, run.config(), options.allow_config_change);
  return start;
}

std::unique_ptr<Task> begin_task(RunStart& start, Device device) {
  static std::mutex one_at_a_time;  // of the ranks of this process: SentencePiece learns in one thread
  const std::lock_guard lock(one_at_a_time);
  const ExperimentConfig& config = start.config;
  std::optional<Pretrained> from;
  if (!start.checkpoint) from = load_pretrained(config);
  const std::string earlier = start.checkpoint ? start.checkpoint->path : from ? from->directory : "";
  std::unique_ptr<Task> task =
      make_task(config, data_directory(config.data_directory(), start.data_root), earlier, device);
  if (from) start.from = begin_from(*from, task->model(), config.train);
  return task;
}

RunState restore_trainer(Trainer& trainer, const NewestCheckpoint& from) {
  RunState state = from_checkpoint(from.contents, from.path);
  try {
    trainer.restore(state.training);
  } catch (const std::invalid_argument& e) {
    throw CheckpointError(fmt::format("{}: is of another model: {}", from.path, e.what()));
  }
  return state;
}

}  // namespace foldgrad
