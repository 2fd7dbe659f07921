#include "train/runs/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "engine/files/atomic_file.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/data_sets.h"
#include "train/runs/logger.h"
#include "train/runs/pretrained.h"
#include "train/runs/resume.h"
#include "train/runs/setup.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/system/signals.h"
#include "train/system/streams.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

// The beginning of a run, or the place where it goes on, as its directory has it before any data is read.
struct RunStart {
  ExperimentConfig config;
  std::string data_root;                       // data.directory lies below it
  std::optional<NewestCheckpoint> checkpoint;  // none: it begins at step 0
  std::string from = {};                       // begin_from()'s account; empty: it begins from no model
};

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

// Reports on stderr what is out of the ordinary. Throws ConfigError, CheckpointError, and FileError when a run is there
// which was not to be resumed.
RunStart find_start(const TrainOptions& options) {
  const RunDirectory run(options.out);
  RunStart start{read_config(options.config, options.settings), find_data_root(options, run),
                 find_checkpoint(options, run)};
  note_unused(options.settings, start.config.blocks());
  if (!start.checkpoint) return start;
  for (const std::string& warning : start.checkpoint->warnings) say("warning: {}\n", warning);
  require_same_trajectory(*start.checkpoint, start.config, run.config(), options.allow_config_change);
  return start;
}

// Makes the task with its model, which begins from that of train.from. A run that goes on has all in its checkpoint.
std::unique_ptr<Task> begin_task(RunStart& start, Device device) {
  const ExperimentConfig& config = start.config;
  std::optional<Pretrained> from;
  if (!start.checkpoint) from = load_pretrained(config);
  const std::string earlier = start.checkpoint ? start.checkpoint->path : from ? from->directory : "";
  std::unique_ptr<Task> task =
      make_task(config, data_directory(config.data_directory(), start.data_root), earlier, device);
  if (from) start.from = begin_from(*from, task->model(), config.train);
  return task;
}

// One process's part of a run.
class TrainingRun {
 public:
  TrainingRun(const std::string& path, const RunStart& start, std::unique_ptr<Task> task)
      : config_(start.config),
        run_(path),
        training_(config_, std::move(task)),
        selection_(*training_.task, config_.validate.patience, training_.config.steps),
        recorder_(training_.task->model().normalizers(), record_phases(config_.record, training_.config.steps),
                  run_.statistics()) {
    if (start.checkpoint) restore(*start.checkpoint);
    training_.trainer.observe(&recorder_);
  }

  // Writes to the run's directory, as train() does; the constructor finds what is wrong before.
  void begin(const TrainOptions& options, const RunStart& start);
  TrainingEnd train();

 private:
  void restore(const NewestCheckpoint& from);
  void warn_of_warmup(std::int64_t last) const;
  void report(bool due);
  bool validate();
  void save();
  TrainingEnd finish(bool stopped);
  Task& task() const { return *training_.task; }
  std::int64_t updates() const { return training_.trainer.updates(); }
  bool is_last(std::int64_t step) const { return step >= training_.config.steps; }

  ExperimentConfig config_;
  RunDirectory run_;
  Training training_;
  Selection selection_;
  Recorder recorder_;
  std::optional<RunLogger> logger_;
  bool unsaved_ = false;  // the disk refused the last checkpoint
};

TrainingEnd TrainingRun::train() {
  bool stop = false;  // a copy, so that a signal between two looks at it cannot end the run unsaved
  while (!is_last(updates()) && !stop && !selection_.out_of_patience()) {
    training_.trainer.step();
    stop = interrupted();
    const std::int64_t n = updates();
    logger_->terminal().at(n);
    const bool validate = n % config_.validate.every == 0 || is_last(n);
    const bool save = n % config_.output.save_every == 0 || is_last(n);
    const bool report = n % config_.output.log_every == 0 || validate || save;
    if (report || stop) this->report(report);
    const bool retry = report && unsaved_;
    if (validate) logger_->layers(n, task().model());
    const bool better = validate && this->validate();
    if (save || stop || better || selection_.out_of_patience() || retry) this->save();
  }
  return finish(stop);
}

TrainingEnd TrainingRun::finish(bool stopped) {
  // Somebody may make room on the disk. A signal gives up: the first, or the second if one stopped the training.
  for (int i = 0; i < 60 && unsaved_ && (stopped || !interrupted()); ++i) {
    sleep(1);
    save();
  }
  const std::int64_t n = updates();
  logger_->terminal().erase();
  if (unsaved_)
    throw FileError(run_.checkpoints(),
                    fmt::format("step {} could not be saved; {}", n,
                                checkpoint_files::steps_in(run_.checkpoints()).empty() ? "there is no earlier one"
                                                                                       : "earlier ones are there"));
  if (!is_last(n) && !selection_.out_of_patience()) {
    say("interrupted at step {}, which is saved; continue with --resume\n", n);
    return {kExitInterrupted, ""};
  }
  logger_->ended(n, is_last(n) ? "finished" : "out of patience");
  warn_of_warmup(n);
  if (!is_last(n)) say("stopped at step {}: {} validations without a better score\n", n, selection_.without_better());
  const BestValidation& best = selection_.best();
  if (best.step == 0) return {kExitOk, ""};
  const std::string what = task().validates_on_test()
                               ? fmt::format("last of {} steps, validated on {}", n, task().test_data())
                               : fmt::format("best of {} steps", n);
  return {kExitOk,
          fmt::format("{}: {}\n{}/{}\n", what, best.text, run_.checkpoints(), checkpoint_files::step_name(best.step))};
}

void TrainingRun::restore(const NewestCheckpoint& from) {
  const RunState state = from_checkpoint(from.contents, from.path);
  try {
    training_.trainer.restore(state.training);
  } catch (const std::invalid_argument& e) {
    throw CheckpointError(fmt::format("{}: is of another model: {}", from.path, e.what()));
  }
  selection_.restore(state.best, state.without_better);
}

void TrainingRun::begin(const TrainOptions& options, const RunStart& start) {
  auto environment = describe_environment(options.build, training_.config.seed, task().data_digests());
  environment["data_root"] = start.data_root;
  run_.begin(config_text(config_), options.command, environment);
  logger_.emplace(run_.log(), start.checkpoint ? start.checkpoint->contents.log_offset : 0, updates(),
                  training_.config.steps);
  if (start.checkpoint) say("resuming at step {}\n", updates());
  for (const std::string& warning : recorder_.resume(updates())) say("warning: {}\n", warning);
  note_interrupts();
  Model& model = task().model();
  logger_->started(
      updates(), task(), config_, training_.config,
      {{"from", start.from}, {"learning_rates", learning_rates(model, parameter_groups(model, training_.config))}});
  warn_of_warmup(training_.config.steps);
}

// Before training the last update is the one that is wanted, after it the one that was made.
void TrainingRun::warn_of_warmup(std::int64_t last) const {
  if (!config_.train.from.empty() && !config_.train.reset_iterations) return;  // it counts on from those before
  const std::string warning = warmup_warning(config_.blocks(), last * training_.config.accumulate);
  if (!warning.empty()) say("warning: {}\n", warning);
}

// Nothing is saved that has not been found finite. When it is not time to report, because a signal wants to save, that
// leaves no trace: the next report is of all updates since the last.
void TrainingRun::report(bool due) try {
  const TrainingReport r = due ? training_.trainer.report() : TrainingReport{.failures = training_.trainer.check()};
  for (const std::string& failure : r.failures) logger_->not_finite(updates(), name(training_.config.on_nan), failure);
  if (due) logger_->trained(r, task().unit_of_work());
} catch (const Diverged& e) {
  logger_->diverged(updates(), e.what());
  throw;
}

// Returns whether the state at hand is the best so far.
bool TrainingRun::validate() {
  const std::int64_t step = updates();
  const auto begin = std::chrono::steady_clock::now();
  const Validation v = [&] {
    const AveragedWeights averaged(training_.trainer.average());
    return task().validate();
  }();
  logger_->validated(step, v, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  try {
    if (!v.samples.empty()) write_file_atomically(run_.sample(step), v.samples);
    if (!v.exhibits.empty()) write_file_atomically(run_.exhibits(), v.exhibits);
  } catch (const FileError& e) {
    logger_->terminal().warn(e.what());
  }
  return selection_.take(step, v);
}

// When the disk refuses, this checkpoint is lost, not the training.
void TrainingRun::save() try {
  const std::int64_t n = updates();
  selection_.forget_unsaved(n);
  const RunState state{training_.trainer.snapshot(), selection_.best(), selection_.without_better()};
  const CheckpointContents contents = to_checkpoint(state, n, config_hash(config_), logger_->offset());
  recorder_.save();  // before, so that a checkpoint never lies behind what is recorded
  logger_->sync();
  save_checkpoint(run_.checkpoints(), contents,
                  {.keep = config_.output.keep,
                   .best = selection_.best().step == n && !task().validates_on_test(),
                   .companions = [&](const std::string& directory) {
                     write_model_config(directory, task().model());
                     task().write_companions(directory);
                   }});
  selection_.saved();
  unsaved_ = false;
} catch (const FileError& e) {
  const std::int64_t n = updates();
  logger_->terminal().warn(fmt::format("no checkpoint at step {}, to be tried again: {}", n, e.what()));
  unsaved_ = true;
}

}  // namespace

TrainingEnd train_experiment(const TrainOptions& options) {
  const Device device = require_device(options.device);
  leave_when_interrupted();
  // A directory that is not there yet is made only when nothing is wrong with the configuration and the data.
  std::optional<RunLock> lock;
  if (fs::exists(options.out)) lock.emplace(options.out);
  RunStart start = find_start(options);
  require_trainable(start.config);
  std::unique_ptr<Task> task = begin_task(start, device);
  TrainingRun run(options.out, start, std::move(task));
  if (!lock) {
    lock.emplace(options.out);
    RunDirectory(options.out).require_no_run();
  }
  run.begin(options, start);
  start.checkpoint.reset();  // which is large
  return run.train();
}

}  // namespace foldgrad
