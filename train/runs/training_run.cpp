#include "train/runs/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "engine/files/atomic_file.h"
#include "engine/parallel/elapsed.h"
#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/runs/logger.h"
#include "train/runs/ranks.h"
#include "train/runs/setup.h"
#include "train/runs/start.h"
#include "train/system/device.h"
#include "train/system/exit_code.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

// The part of a run that a single process or, with several ranks, rank 0 carries out.
class TrainingRun {
 public:
  TrainingRun(const TrainOptions& options, const RunStart& start, std::unique_ptr<Task> task,
              Communicator* communicator)
      : options_(options),
        config_(start.config),
        run_(options.out),
        communicator_(communicator),
        training_(config_, std::move(task), communicator, run_.statistics()),
        selection_(*training_.task, config_.validate.patience, training_.config.steps) {
    if (start.checkpoint) {
      const RunState state = restore_trainer(training_.trainer, *start.checkpoint);
      selection_.restore(state.best, state.without_better);
    }
  }

  // Writes to the run's directory, as train() also does. The constructor writes nothing.
  void begin(const RunStart& start);
  TrainingEnd train();

 private:
  void warn_of_warmup(std::int64_t last) const;
  void report(bool due);
  bool validate();
  void save();
  TrainingEnd finish(bool stopped);
  Task& task() const { return *training_.task; }
  std::int64_t updates() const { return training_.trainer.updates(); }
  bool is_last(std::int64_t step) const { return step >= training_.config.steps; }

  const TrainOptions& options_;
  ExperimentConfig config_;
  RunDirectory run_;
  Communicator* communicator_;  // null if there is only this process
  Training training_;
  Selection selection_;
  std::optional<RunLogger> logger_;
  std::int64_t first_ = 0;  // updates made before the run was resumed
  double seconds_ = 0;      // time spent on updates since then
  bool unsaved_ = false;    // true if the last checkpoint could not be written
};

TrainingEnd TrainingRun::train() {
  bool stop = false;  // a copy, so that a signal between two reads cannot end the run unsaved
  while (!is_last(updates()) && !stop && !selection_.out_of_patience()) {
    const Clock::time_point begin = Clock::now();
    give_order(communicator_, Order::step);  // the other ranks do the same (ranks.h)
    training_.trainer.step();
    stop = stopped_anywhere(options_, communicator_);
    seconds_ += seconds_since(begin);
    const std::int64_t n = updates();
    logger_->terminal().at(n);
    const bool validates = n % config_.validate.every == 0 || is_last(n);
    const bool saves = n % config_.output.save_every == 0 || is_last(n);
    const bool reports = n % config_.output.log_every == 0 || validates || saves;
    if (reports || stop) report(reports);
    const bool retry = reports && unsaved_;
    if (validates) logger_->layers(n, training_.trainer.trained(), task().model());
    const bool better = validates && validate();
    if (saves || stop || better || selection_.out_of_patience() || retry) save();
  }
  return finish(stop);
}

TrainingEnd TrainingRun::finish(bool stopped) {
  give_order(communicator_, Order::end);
  if (communicator_ && options_.profile_communication)
    say("{}", traffic_text(*communicator_, seconds_, updates() - first_));
  // Retries for up to a minute, since the user may free disk space. A request to stop ends the retries, unless training
  // ended because of such a request.
  for (int i = 0; i < 60 && unsaved_ && (stopped || !options_.stop()); ++i) {
    sleep(1);
    save();
  }
  const std::int64_t n = updates();
  logger_->terminal().erase();
  if (unsaved_)
    throw FileError(run_.checkpoints(), fmt::format("step {} could not be saved; {}", n,
                                                    checkpoint_files::steps_in(run_.checkpoints()).empty()
                                                        ? "there is no earlier checkpoint"
                                                        : "there are earlier checkpoints"));
  if (!is_last(n) && !selection_.out_of_patience()) {
    say("interrupted at step {}, which is saved; continue with --resume\n", n);
    return {kExitInterrupted, ""};
  }
  logger_->ended(n, is_last(n) ? "finished" : "out of patience");
  warn_of_warmup(n);
  if (!is_last(n)) say("stopped at step {}: {} validations without a better score\n", n, selection_.without_better());
  const BestValidation& best = selection_.best();
  if (best.step == 0) return {kExitOk, ""};
  const std::string what = task().facts().validates_on_test
                               ? fmt::format("last of {} steps, validated on {}", n, task().facts().test_data())
                               : fmt::format("best of {} steps", n);
  return {kExitOk,
          fmt::format("{}: {}\n{}/{}\n", what, best.text, run_.checkpoints(), checkpoint_files::step_name(best.step))};
}

void TrainingRun::begin(const RunStart& start) {
  first_ = updates();
  if (start.checkpoint && !options_.allow_config_change)
    require_same_data(*start.checkpoint, run_, task().facts().data_digests);
  auto environment = describe_environment(options_.build, training_.config.seed, task().facts().data_digests);
  environment["data_root"] = start.data_root;
  run_.begin(config_text(config_), options_.command, environment);
  logger_.emplace(run_.log(), start.checkpoint ? start.checkpoint->contents.log_offset : 0, updates(),
                  training_.config.steps, options_.on_event);
  if (start.checkpoint) say("resuming at step {}\n", updates());
  for (const std::string& warning : training_.recorder.resume(updates())) say("warning: {}\n", warning);
  options_.began();
  Model& model = task().model();
  logger_->started(updates(), task(), config_,
                   {{"from", start.from},
                    {"ranks", ranks_text(communicator_, options_.processes)},
                    {"learning_rates", learning_rates(model, parameter_groups(model, training_.config))}});
  warn_of_warmup(training_.config.steps);
}

// Warns if training ends within the normalizer's warm-up. `last` is the last update: the requested one before training,
// and the one that was reached after training. Normalizers also count their earlier iterations, including the
// iterations of train.from's model.
void TrainingRun::warn_of_warmup(std::int64_t last) const {
  const NormWarmup warmup = norm_warmup(config_.blocks());
  if (warmup.iterations == 0) return;
  std::int64_t before = 0, passes = 0;
  for (const Normalizer* norm : task().model().normalizers()) before = std::max(before, norm->diagnostics().iterations);
  if (__builtin_mul_overflow(last - updates(), training_.config.accumulate, &passes) ||
      __builtin_add_overflow(before, passes, &passes) || passes >= warmup.iterations)
    return;
  say("warning: {} never leaves its warm-up and {}: {}, and the run ends after {} iterations; half of that is a good "
      "value\n",
      config_.blocks().normalizer, warmup.meanwhile, warmup.keys, passes);
}

// Checks that all numbers are finite, as every save requires. Reports only if `due`. A save that a signal asked for
// does not report, so that the next report covers all updates since the previous one.
void TrainingRun::report(bool due) try {
  give_order(communicator_, due ? Order::report : Order::check);
  const TrainingReport r = due ? training_.trainer.report() : TrainingReport{.failures = training_.trainer.check()};
  for (const std::string& failure : r.failures) logger_->not_finite(updates(), name(training_.config.on_nan), failure);
  if (due) logger_->trained(r, task().facts().unit_of_work, task().model().diagnostics());
} catch (const Diverged& e) {
  logger_->diverged(updates(), e.what());
  throw;
}

// Validates. Returns true if the current model is the best so far.
bool TrainingRun::validate() {
  const std::int64_t step = updates();
  const Clock::time_point begin = Clock::now();
  give_order(communicator_, Order::validate);
  const Validation v = foldgrad::validate(training_, communicator_);
  logger_->validated(step, v, seconds_since(begin));
  try {
    if (!v.samples.empty()) write_file_atomically(run_.sample(step), v.samples);
    if (!v.exhibits.empty()) write_file_atomically(run_.exhibits(), v.exhibits);
  } catch (const FileError& e) {
    logger_->terminal().warn(e.what());
  }
  return selection_.take(step, v);
}

// Saves a checkpoint. If the checkpoint cannot be written, training continues. Throws Diverged if the checkpoint could
// not be loaded again: weights or moments can be non-finite even if the loss and gradients are finite.
void TrainingRun::save() try {
  const std::int64_t n = updates();
  logger_->retry();              // comes first, so that the log is complete up to the checkpoint's offset
  selection_.forget_unsaved(n);  // a best model of an earlier step that could not be saved is lost
  const RunState state{training_.trainer.snapshot(), selection_.best(), selection_.without_better()};
  const CheckpointContents contents = to_checkpoint(state, n, config_hash(config_), logger_->offset());
  if (const std::string reason = reason_to_refuse(contents); !reason.empty()) {
    const std::string message = fmt::format("at step {} {}", n, reason);
    logger_->diverged(n, message);
    throw Diverged(message);
  }
  training_.recorder.save();  // comes first, so that no checkpoint is ahead of the recording
  logger_->sync();
  save_checkpoint(
      run_.checkpoints(), contents,
      {.keep = config_.output.keep,
       .best = selection_.best().step > 0 && !task().facts().validates_on_test ? selection_.best().step : -1,
       .companions = [&](const std::string& directory) {
         write_model_config(directory, task().model());
         task().write_companions(directory);
       }});
  selection_.saved();
  unsaved_ = false;
} catch (const FileError& e) {
  logger_->terminal().warn(
      fmt::format("the checkpoint at step {} could not be saved; saving will be retried: {}", updates(), e.what()));
  unsaved_ = true;
}

}  // namespace

TrainingEnd train_experiment(const TrainOptions& options) {
  const Device device = require_device(options.device);
  const bool first = !options.processes || options.processes->rank() == 0;
  // A missing directory is created only if configuration and data are valid.
  std::optional<RunLock> lock;
  if (first && file_exists(options.out)) lock.emplace(options.out);
  RunStart start = find_start(options);
  require_trainable(start.config);
  const auto train = [&](RunStart own, Communicator* communicator) {
    std::unique_ptr<Task> task = begin_task(own, device);
    if (communicator) require_common_start(*communicator, options.build, own.config, *task);
    if (communicator && communicator->rank() > 0) return repeat_run(options, own, std::move(task), *communicator);
    TrainingRun run(options, own, std::move(task), communicator);
    if (!lock) {
      lock.emplace(options.out);
      RunDirectory(options.out).require_no_run();
    }
    run.begin(own);
    own.checkpoint.reset();  // the checkpoint is large
    return run.train();
  };
  if (start.config.train.shards <= 1) return train(std::move(start), nullptr);
  // Every rank prepares the data before require_common_start() counts examples. With too many ranks, that takes
  // minutes.
  constexpr std::int64_t kMany = 16;
  if (start.config.train.shards > kMany) require_examples(*begin_task(start, device), start.config.train.shards);
  return on_ranks(options, device, std::move(start), train);
}

}  // namespace foldgrad
