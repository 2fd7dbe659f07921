// The training loop: examples, forward, backward, update.
//
//   Trainer trainer(task, optimizer, schedule, options);
//   for (int n = 0; n < 100; ++n) trainer.step();
//   TrainingReport report = trainer.report();
//
//   [TRN-1]  One update: g = sum over its batches of d(sum of losses) / dp, divided by the weight of all its batches,
//            which for translation is their number of target tokens. So with `accumulate` batches every token weighs
//            the same, as in one large batch; but normalizers with statistics over tokens see one batch at a time.
//   [TRN-2]  The penalties of normalizers (rbn) are added to a batch's sum of losses, whatever its weight: their
//            factors were tuned with code that does so. Reported losses exclude the penalties.
//
// A step reads nothing from the device. report() reads losses and norms, and keeps a copy of the state. If a number was
// not finite, it repeats the updates since the last report from that copy, with the same random numbers and batches,
// and checks every value of the update that failed, to find the first operation that failed. Then training continues
// from the copy as TrainerOptions::on_nan says.
#pragma once
#include <optional>
#include <stdexcept>

#include "engine/parallel/elapsed.h"
#include "train/loop/gradient_sum.h"
#include "train/loop/optimizer/gradient_clipping.h"
#include "train/loop/optimizer/optimizer.h"
#include "train/loop/optimizer/weight_average.h"
#include "train/loop/schedule.h"
#include "train/loop/task.h"
#include "train/loop/trainer_options.h"

namespace foldgrad {

constexpr int kMostFailures = 10;  // number of failures between two reports at which training stops

// Sums over those updates since the last report whose numbers are known to be finite.
struct ReportSums {
  double loss = 0, seconds = 0;
  std::int64_t weight = 0, work = 0;  // sums over all examples
  bool operator==(const ReportSums&) const = default;
};

// All that determines the next updates and report, except data and settings. The optimizer's state counts the updates.
struct TrainingState {
  NamedTensors parameters, normalizers, optimizer, average;
  DataCursor cursor;
  ReportSums since_report;
};

// A report on the updates since the last one.
struct TrainingReport {
  std::int64_t updates = 0;  // number of updates since training began
  double loss = 0;           // the training loss per unit of weight, in nats
  double gradient_norm = 0;  // norm in the last update, before `clip` and after `agc`
  double lr = 0;             // learning rate of the last update
  std::int64_t weight = 0, work = 0;
  double seconds = 0;                 // time spent on updates, without the time between a report and the next update
  std::vector<std::string> failures;  // messages about skipped or rolled-back updates, as Diverged would give them

  double work_per_second() const { return seconds > 0 ? double(work) / seconds : 0; }
};

// The error for a loss or a gradient that is not finite. Its message names the layer, the operation and the update.
class Diverged : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Callbacks around each update; training must not depend on them. Updates are numbered from 1. An update that is
// repeated because a number was not finite is reported again.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  virtual void begin(std::int64_t update) = 0;
  virtual void end(std::int64_t update) = 0;  // not called if the update throws
};

class Trainer {
 public:
  // All arguments must outlive the trainer. Between steps, only restore() may change the parameters. An average may be
  // swapped in if it is swapped out again. Throws std::invalid_argument if accumulate is below 1, or clip or agc is
  // negative.
  //
  // With a communicator, each rank has its own trainer, with the same state and settings, and calls the same functions.
  // Each rank computes its part of every batch; losses and gradients are then summed over the ranks.
  Trainer(Task& task, Optimizer& optimizer, const Schedule& schedule, const TrainerOptions& options,
          Communicator* communicator = nullptr);

  // Sets the observer, which must outlive the trainer. Null removes it.
  void observe(UpdateObserver* observer) { observer_ = observer; }

  // Makes one update. Throws the exceptions of task, optimizer and schedule.
  void step();

  // Reports on the updates since the last report. Throws Diverged, and std::invalid_argument if there were none.
  TrainingReport report();
  // Checks that all numbers are finite and handles failures, as report() does, but the next report still covers all
  // updates since the last one. Returns the messages of skipped or rolled back updates. Throws Diverged.
  std::vector<std::string> check();

  std::int64_t updates() const { return optimizer_.steps(); }
  // The model's parameters except frozen ones. With a communicator, only these have the gradients of the whole batch.
  const std::vector<Parameter*>& trained() const { return trained_; }
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }  // null if average_decay is 0

  // Returns the state. The sums in it, for the next report, end at the last check() or report().
  TrainingState snapshot() const;
  // After this call, training continues bit-identically to the run that made the snapshot. Entries of the average that
  // the state lacks start at the values of their parameters and statistics. Throws std::invalid_argument if the state
  // does not fit.
  void restore(const TrainingState& state);

 private:
  struct Record {
    std::vector<Tensor> losses;  // the sum of the losses of each batch
    Tensor gradient_norm;
    std::int64_t weight = 0, work = 0;
  };

  // With `send_early`, the tape's observer sends each gradient as soon as the last batch's backward pass completes it.
  Record update(Tape& tape, bool send_early);
  // Returns the sum of a batch's losses and adds its gradients, divided by the weight of all batches of the update.
  Tensor compute(const Examples& batch, std::int64_t random_step, std::int64_t total_weight, Tape& tape,
                 bool send_early);
  // trainer_recovery.cpp has these three functions, begin_records() and check().
  std::size_t first_failure() const;  // returns the index of the first failed record; records_.size() if none failed
  std::string checked_update();       // repeats the failed update and returns a message
  std::string mend(std::size_t failed);
  void load(const TrainingState& state);
  void begin_records();

  Task& task_;
  Optimizer& optimizer_;
  const Schedule& schedule_;
  TrainerOptions options_;
  Communicator* communicator_;          // null if there is only this process
  std::vector<Parameter*> parameters_;  // the parameters of the model
  // The parameters in the optimizer. The others are frozen, and no norm includes them.
  std::vector<Parameter*> trained_, clipped_adaptively_;
  std::optional<GradientSum> gradient_sum_;  // present if there is a communicator
  Tape tape_;
  UpdateObserver* observer_ = nullptr;
  std::optional<WeightAverage> average_;
  ReportSums sums_;               // sums up to the last check()
  double gradient_norm_ = 0;      // norm in the last update before that check
  std::vector<Record> records_;   // records since that check
  TrainingState good_;            // a finite state, saved after that check, ...
  std::size_t good_records_ = 0;  // ... and the number of records before it
  Clock::time_point since_;       // the time when the first of records_ began
};

}  // namespace foldgrad
