#include "train/runs/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "engine/files/atomic_file.h"
#include "engine/tf32.h"
#include "train/analyses/layer_statistics.h"
#include "train/checkpoints/files.h"
#include "train/checkpoints/model_directory.h"
#include "train/data/data_root.h"
#include "train/runs/event_log.h"
#include "train/runs/lock.h"
#include "train/runs/progress.h"
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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

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
                      test_data(), config_.validate.patience));
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
  bool out_of_patience() const {
    return config_.validate.patience > 0 && state_.without_better >= config_.validate.patience;
  }
  std::string test_data() const { return "the test " + task_->unit_of_work(); }
  void log_start(const std::string& device);
  void log(nlohmann::ordered_json event);
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
  std::optional<EventLog> log_;
  std::vector<nlohmann::ordered_json> unlogged_;  // refused by the disk so far
  std::optional<ProgressLine> progress_;
  RunState state_;  // all but `training`
  BestValidation saved_best_;
  bool told_signatures_ = false;
  bool unsaved_ = false;  // the disk refused the last checkpoint
};

int TrainingRun::train() {
  const std::int64_t steps = train_.steps;
  bool stop = false;  // a copy, so that a signal between two looks at it cannot end the run unsaved
  while (trainer_.updates() < steps && !stop && !out_of_patience()) {
    trainer_.step();
    stop = interrupted();
    const std::int64_t n = trainer_.updates();
    progress_->at(n);
    const bool validate = n % config_.validate.every == 0 || n == steps;
    const bool save = n == steps || n % config_.output.save_every == 0;
    const bool report = n % config_.output.log_every == 0 || validate || save;
    if (report || stop) this->report(report);
    const bool better = validate && this->validate();
    if (save || stop || better || out_of_patience() || (report && unsaved_)) this->save();
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
  progress_->erase();
  if (unsaved_)
    throw FileError(run_.checkpoints(),
                    fmt::format("step {} could not be saved; {}", n,
                                checkpoint_files::steps_in(run_.checkpoints()).empty() ? "there is no earlier one"
                                                                                       : "earlier ones are there"));
  if (n < train_.steps && !out_of_patience()) {
    say("interrupted at step {}, which is saved; continue with --resume\n", n);
    return kExitInterrupted;
  }
  log({{"event", "end"}, {"step", n}, {"outcome", n < train_.steps ? "out of patience" : "finished"}});
  if (n < train_.steps) say("stopped at step {}: {} validations without a better score\n", n, state_.without_better);
  if (state_.best.step == 0) return kExitOk;
  const std::string what = task_->validates_on_test() ? fmt::format("last of {} steps, validated on {}", n, test_data())
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
  log_.emplace(run_.log(), start.checkpoint ? start.checkpoint->contents.log_offset : 0);
  if (log_->missing() > 0)
    say("warning: {}: {} bytes that it had when the checkpoint was saved are missing\n", run_.log(), log_->missing());
  if (start.checkpoint) say("resuming at step {}\n", trainer_.updates());
  for (const std::string& warning : recorder_.resume(trainer_.updates())) say("warning: {}\n", warning);
  note_interrupts();
  progress_.emplace(trainer_.updates(), train_.steps);
  log_start(name_of_chosen(model_.device()));
}

void TrainingRun::log_start(const std::string& device) {
  nlohmann::ordered_json event{{"event", "start"},
                               {"step", trainer_.updates()},
                               {"steps", train_.steps},
                               {"norm", config_.blocks().normalizer},
                               {"parameters", model_.parameter_count()},
                               {"score", task_->deciding_score()},
                               {"device", device},
                               {"tf32", tf32_allowed()}};
  if (train_.epochs > 0) {
    event["epochs"] = train_.epochs;
    progress_->print(
        fmt::format("{} epochs of {} batches: {} updates", train_.epochs, task_->batches_per_epoch(), train_.steps));
  }
  if (task_->validates_on_test()) {
    event["validated_on"] = "test";
    progress_->print(fmt::format("validated on {}: no checkpoint is chosen, the last one counts", test_data()));
  }
  log(std::move(event));
}

// Nothing is saved that has not been found finite. When it is not time to report, because a signal wants to save, that
// leaves no trace: the next report is of all updates since the last.
void TrainingRun::report(bool due) try {
  const TrainingReport r = due ? trainer_.report() : TrainingReport{.failures = trainer_.check()};
  for (const std::string& failure : r.failures) {
    progress_->warn(fmt::format("{}: {}", train_.on_nan, failure));
    log({{"event", "not_finite"}, {"step", trainer_.updates()}, {"action", train_.on_nan}, {"message", failure}});
  }
  if (!due) return;
  if (!r.refused_capture.empty())
    progress_->warn(fmt::format("this step is not run as a CUDA graph, which would be faster: {}", r.refused_capture));
  const std::string speed = fmt::format("{:.0f} {}/s", r.work_per_second(), task_->unit_of_work());
  progress_->set_status(fmt::format("loss {:.4f}  {}", r.loss, speed));
  progress_->print(fmt::format("step {:>6}/{}  loss {:7.4f}  gradient {:7.3f}  lr {:.2e}  {}", r.updates, train_.steps,
                               r.loss, r.gradient_norm, r.lr, speed));
  log({{"event", "train"},
       {"step", r.updates},
       {"loss", r.loss},
       {"gradient_norm", r.gradient_norm},
       {"lr", r.lr},
       {task_->unit_of_work() + "_per_second", r.work_per_second()},
       {"seconds", r.seconds}});
} catch (const Diverged& e) {
  log({{"event", "diverged"}, {"step", trainer_.updates()}, {"message", e.what()}});
  throw;
}

// Whether it is the best so far.
bool TrainingRun::validate() {
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t n = trainer_.updates();
  const Validation v = [&] {
    const AveragedWeights averaged(trainer_.average());
    return task_->validate();
  }();
  if (!std::exchange(told_signatures_, true) && !v.signatures.empty()) progress_->print(v.signatures);
  progress_->print(fmt::format("step {:>6}  validation: {}", n, v.short_text));
  try {
    if (!v.samples.empty()) write_file_atomically(run_.sample(n), v.samples);
    if (!v.exhibits.empty()) write_file_atomically(run_.exhibits(), v.exhibits);
  } catch (const FileError& e) {
    progress_->warn(e.what());
  }
  nlohmann::ordered_json event{{"event", "validate"}, {"step", n}};
  for (const auto& [name, value] : v.scores) event[name] = value;
  for (const auto& [name, text] : v.notes) event[name] = text;
  event["seconds"] = seconds_since(begin);
  log(std::move(event));
  log({{"event", "layers"},
       {"step", n},
       {"gradient_norms", gradient_norms(model_.parameters())},
       {"normalizers", normalizer_statistics(model_.normalizers())}});
  ++state_.without_better;
  const bool better = task_->validates_on_test() ? n == train_.steps : state_.best.worse_than(v.deciding, v.loss);
  if (!better) return false;
  // JSON has no NaN; the loss of a model with a score can hardly be one.
  state_.best = {n, v.deciding, std::isfinite(v.loss) ? v.loss : BestValidation().loss, v.text};
  state_.without_better = 0;
  return true;
}

// When the disk refuses, this checkpoint is lost, not the training.
void TrainingRun::save() try {
  const std::int64_t n = trainer_.updates();
  const bool best = state_.best.step == n;
  if (!best) state_.best = saved_best_;  // one that was never saved is lost
  recorder_.save();                      // before, so that a checkpoint never lies behind what is recorded
  const RunState state{trainer_.snapshot(), state_.best, state_.without_better};
  save_checkpoint(run_.checkpoints(), to_checkpoint(state, n, config_hash(config_), log_->sync()),
                  {.keep = config_.output.keep,
                   .best = best && !task_->validates_on_test(),
                   .companions = [&](const std::string& directory) {
                     write_model_config(directory, model_);
                     task_->write_companions(directory);
                   }});
  saved_best_ = state_.best;
  unsaved_ = false;
} catch (const FileError& e) {
  progress_->warn(fmt::format("no checkpoint at step {}, to be tried again: {}", trainer_.updates(), e.what()));
  unsaved_ = true;
}

// Events that the disk refuses are kept until it accepts them.
void TrainingRun::log(nlohmann::ordered_json event) {
  const bool refused_before = !unlogged_.empty();
  unlogged_.push_back(std::move(event));
  try {
    for (; !unlogged_.empty(); unlogged_.erase(unlogged_.begin())) log_->write(unlogged_.front());
  } catch (const FileError& e) {
    if (!refused_before) progress_->warn(e.what());
  }
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
