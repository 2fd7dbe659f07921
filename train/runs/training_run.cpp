#include "train/runs/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>

#include "engine/files/atomic_file.h"
#include "train/checkpoints/files.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/data_root.h"
#include "train/runs/lock.h"
#include "train/runs/logger.h"
#include "train/runs/resume.h"
#include "train/runs/setup.h"
#include "train/runs/start.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/system/signals.h"
#include "train/system/streams.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

// One process's part of a run.
class TrainingRun {
 public:
  TrainingRun(const std::string& path, const RunStart& start, std::unique_ptr<Task> task)
      : config_(start.config),
        run_(path),
        task_(std::move(task)),
        model_(task_->model()),
        train_(with_epochs_counted(config_.train, task_->batches_per_epoch())),
        optimizer_(optimizer_rule(train_), parameter_groups(model_, train_)),
        schedule_(schedule_options(train_)),
        trainer_(*task_, optimizer_, schedule_, trainer_options(train_)),
        recorder_(model_.normalizers(), record_phases(config_.record, train_.steps), run_.statistics()) {
    if (config_.validate.patience > 0 && task_->validates_on_test())
      throw ConfigError(
          fmt::format("validate.patience must be 0 where {} are validated on, since it would choose by them, "
                      "got {}",
                      task_->test_data(), config_.validate.patience));
    if (start.checkpoint) restore(*start.checkpoint);
    trainer_.observe(&recorder_);
  }

  // Writes to the run's directory, as train() does; the constructor finds what is wrong before.
  void begin(const TrainOptions& options, const RunStart& start);
  int train();

 private:
  void restore(const NewestCheckpoint& from);
  void report(bool due);
  bool validate();
  void save();
  bool validates_at(std::int64_t step) const { return step % config_.validate.every == 0 || step == train_.steps; }
  bool out_of_patience() const {
    return config_.validate.patience > 0 && state_.without_better >= config_.validate.patience;
  }
  int finish(bool stopped);

  ExperimentConfig config_;
  RunDirectory run_;
  std::unique_ptr<Task> task_;
  Model& model_;       // of the task
  TrainConfig train_;  // of the configuration, with epochs counted
  Optimizer optimizer_;
  Schedule schedule_;
  Trainer trainer_;
  Recorder recorder_;
  std::optional<RunLogger> logger_;
  RunState state_;  // all but `training`
  BestValidation saved_best_;
  bool unsaved_ = false;  // the disk refused the last checkpoint
};

int TrainingRun::train() {
  const std::int64_t steps = train_.steps;
  bool stop = false;  // a copy, so that a signal between two looks at it cannot end the run unsaved
  while (trainer_.updates() < steps && !stop && !out_of_patience()) {
    trainer_.step();
    stop = interrupted();
    const std::int64_t n = trainer_.updates();
    logger_->terminal().at(n);
    const bool validate = validates_at(n);
    const bool save = n == steps || n % config_.output.save_every == 0;
    const bool report = n % config_.output.log_every == 0 || validate || save;
    if (report || stop) this->report(report);
    const bool retry = report && unsaved_;
    if (validate) logger_->layers(n, model_);
    const bool better = validate && this->validate();
    if (save || stop || better || out_of_patience() || retry) this->save();
  }
  return finish(stop);
}

int TrainingRun::finish(bool stopped) {
  // Somebody may make room on the disk. A signal gives up: the first, or the second if one stopped the training.
  for (int i = 0; i < 60 && unsaved_ && (stopped || !interrupted()); ++i) {
    sleep(1);
    save();
  }
  const std::int64_t n = trainer_.updates();
  logger_->terminal().erase();
  if (unsaved_)
    throw FileError(run_.checkpoints(),
                    fmt::format("step {} could not be saved; {}", n,
                                checkpoint_files::steps_in(run_.checkpoints()).empty() ? "there is no earlier one"
                                                                                       : "earlier ones are there"));
  if (n < train_.steps && !out_of_patience()) {
    say("interrupted at step {}, which is saved; continue with --resume\n", n);
    return kExitInterrupted;
  }
  logger_->ended(n, n < train_.steps ? "out of patience" : "finished");
  if (n < train_.steps) say("stopped at step {}: {} validations without a better score\n", n, state_.without_better);
  if (state_.best.step == 0) return kExitOk;
  const std::string what = task_->validates_on_test()
                               ? fmt::format("last of {} steps, validated on {}", n, task_->test_data())
                               : fmt::format("best of {} steps", n);
  fmt::print("{}: {}\n{}/{}\n", what, state_.best.text, run_.checkpoints(),
             checkpoint_files::step_name(state_.best.step));
  return kExitOk;
}

void TrainingRun::restore(const NewestCheckpoint& from) {
  state_ = from_checkpoint(from.contents, from.path);
  try {
    trainer_.restore(state_.training);
  } catch (const std::invalid_argument& e) {
    throw CheckpointError(fmt::format("{}: is of another model: {}", from.path, e.what()));
  }
  state_.training = {};
  saved_best_ = state_.best;
}

void TrainingRun::begin(const TrainOptions& options, const RunStart& start) {
  auto environment = describe_environment(options.build, train_.seed, task_->data_digests());
  environment["data_root"] = start.data_root;
  run_.begin(config_text(config_), options.command, environment);
  logger_.emplace(run_.log(), start.checkpoint ? start.checkpoint->contents.log_offset : 0, trainer_.updates(),
                  train_.steps);
  if (start.checkpoint) say("resuming at step {}\n", trainer_.updates());
  for (const std::string& warning : recorder_.resume(trainer_.updates())) say("warning: {}\n", warning);
  note_interrupts();
  logger_->started(trainer_.updates(), *task_, config_, train_);
}

// Nothing is saved that has not been found finite. When it is not time to report, because a signal wants to save, that
// leaves no trace: the next report is of all updates since the last.
void TrainingRun::report(bool due) try {
  const TrainingReport r = due ? trainer_.report() : TrainingReport{.failures = trainer_.check()};
  for (const std::string& failure : r.failures) logger_->not_finite(trainer_.updates(), train_.on_nan, failure);
  if (due) logger_->trained(r, task_->unit_of_work());
} catch (const Diverged& e) {
  logger_->diverged(trainer_.updates(), e.what());
  throw;
}

// Returns whether the state at hand is the best so far.
bool TrainingRun::validate() {
  const std::int64_t step = trainer_.updates();
  const auto begin = std::chrono::steady_clock::now();
  const Validation v = [&] {
    const AveragedWeights averaged(trainer_.average());
    return task_->validate();
  }();
  logger_->validated(step, v, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  try {
    if (!v.samples.empty()) write_file_atomically(run_.sample(step), v.samples);
    if (!v.exhibits.empty()) write_file_atomically(run_.exhibits(), v.exhibits);
  } catch (const FileError& e) {
    logger_->terminal().warn(e.what());
  }
  ++state_.without_better;
  const bool better = task_->validates_on_test() ? step == train_.steps : state_.best.worse_than(v.deciding, v.loss);
  if (!better) return false;
  // JSON has no NaN; the loss of a model with a score can hardly be one.
  state_.best = {step, v.deciding, std::isfinite(v.loss) ? v.loss : BestValidation().loss, v.text};
  state_.without_better = 0;
  return true;
}

// When the disk refuses, this checkpoint is lost, not the training.
void TrainingRun::save() try {
  const bool best = state_.best.step == trainer_.updates();
  if (!best) state_.best = saved_best_;  // one that was never saved is lost
  const RunState state{trainer_.snapshot(), state_.best, state_.without_better};
  const CheckpointContents contents = to_checkpoint(state, trainer_.updates(), config_hash(config_), logger_->offset());
  recorder_.save();  // before, so that a checkpoint never lies behind what is recorded
  logger_->sync();
  save_checkpoint(run_.checkpoints(), contents,
                  {.keep = config_.output.keep,
                   .best = best && !task_->validates_on_test(),
                   .companions = [&](const std::string& directory) {
                     write_model_config(directory, model_);
                     task_->write_companions(directory);
                   }});
  saved_best_ = state_.best;
  unsaved_ = false;
} catch (const FileError& e) {
  const std::int64_t n = trainer_.updates();
  logger_->terminal().warn(fmt::format("no checkpoint at step {}, to be tried again: {}", n, e.what()));
  unsaved_ = true;
}

}  // namespace

int train_experiment(const TrainOptions& options) {
  const Device device = require_device(options.device);
  leave_when_interrupted();
  // A directory that is not there yet is made only when nothing is wrong with the configuration and the data.
  std::optional<RunLock> lock;
  if (std::filesystem::exists(options.out)) lock.emplace(options.out);
  RunStart start = find_start(options);
  require_trainable(start.config);
  TrainingRun run(options.out, start,
                  family(start.config.family)
                      .make_task(start.config, data_directory(start.config.data_directory(), start.data_root),
                                 start.checkpoint ? start.checkpoint->path : "", device));
  if (!lock) {
    lock.emplace(options.out);
    RunDirectory(options.out).require_no_run();
  }
  run.begin(options, start);
  start.checkpoint.reset();  // which is large
  return run.train();
}

}  // namespace foldgrad
