// The training loop: examples, forward, backward, update.
//
//   Trainer trainer(task, optimizer, schedule, options);
//   for (int n = 0; n < 100; ++n) trainer.step();
//   TrainingReport report = trainer.report();
//
//   [TRN-1]  One update: g = sum over its batches of d(sum of losses) / dp, divided by the weight of all its batches,
//            which for translation is their number of target tokens. So `accumulate` batches weigh every token alike,
//            as one batch of all of them would; but normalizers with statistics over tokens see one batch at a time.
//   [TRN-2]  The penalties of normalizers (rbn) are added to a batch's sum of losses, whatever its weight: their
//            factors were tuned with code that does so. Reported losses are without them.
//
// A step reads nothing from the device: losses and norms are read by report(), which also keeps a copy of the state.
// When a number was not finite, the updates since the last report are made again from that copy, the one that failed
// with every value checked. The same random numbers and batches come again, so that this finds the first operation
// that failed. Then the copy also serves to go on as TrainerOptions::on_nan says.
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

constexpr int kMostFailures = 10;  // between two reports; then training is given up all the same

// Sums over the updates since the last report, as far as they were found finite.
struct ReportSums {
  double loss = 0, seconds = 0;
  std::int64_t weight = 0, work = 0;  // over all examples
  bool operator==(const ReportSums&) const = default;
};

// All that the next updates and the next report depend on, beside the data and the settings. The number of updates is
// the optimizer's.
struct TrainingState {
  NamedTensors parameters, normalizers, optimizer, average;
  DataCursor cursor;
  ReportSums since_report;
};

// A report on the updates since the last one.
struct TrainingReport {
  std::int64_t updates = 0;  // since the beginning
  double loss = 0;           // per weight, as trained, in nats
  double gradient_norm = 0;  // of the last update, before `clip` and after `agc`
  double lr = 0;             // of the last update
  std::int64_t weight = 0, work = 0;
  double seconds = 0;                 // of updates: not from a report to the next update
  std::vector<std::string> failures;  // skipped or rolled back: what Diverged would have said

  double work_per_second() const { return seconds > 0 ? double(work) / seconds : 0; }
};

// The error for a loss or a gradient that is not finite. Its message names layer, operation and update.
class Diverged : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Callbacks around each update, on which training must not depend. Updates are numbered from 1; one that is made
// again, since a number was not finite, comes again.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  virtual void begin(std::int64_t update) = 0;
  virtual void end(std::int64_t update) = 0;  // not called when the update throws
};

class Trainer {
 public:
  // All must outlive the trainer, and between its steps nobody else changes the parameters but restore(), or an average
  // that is swapped in and out again. Throws std::invalid_argument for accumulate below 1 and a negative clip or agc.
  //
  // With a communicator each rank has a trainer of its own, with the same state and settings, and calls the same
  // functions. It computes its part of every batch; losses and gradients are then those of the whole.
  Trainer(Task& task, Optimizer& optimizer, const Schedule& schedule, const TrainerOptions& options,
          Communicator* communicator = nullptr);

  // Sets the observer, which must outlive the trainer; null: none.
  void observe(UpdateObserver* observer) { observer_ = observer; }

  // Makes one update. Throws what task, optimizer and schedule throw.
  void step();

  // Throws Diverged; std::invalid_argument when there was no step since the last report.
  TrainingReport report();
  // Finds out, like report(), whether all is finite, and mends it; the next report is still of all updates since the
  // last. Returns what was skipped or rolled back. Throws Diverged.
  std::vector<std::string> check();

  std::int64_t updates() const { return optimizer_.steps(); }
  // The model's parameters but the frozen ones, which the optimizer does not have. With a communicator only theirs are
  // gradients of the whole batch.
  const std::vector<Parameter*>& trained() const { return trained_; }
  WeightAverage* average() { return average_ ? &*average_ : nullptr; }  // null without average_decay

  // Returns the state; the sums of the next report are in it as far as check() or report() has seen them.
  TrainingState snapshot() const;
  // Continues with the same bits as the run that the snapshot is of. What the state's average lacks begins at its
  // parameters and statistics. Throws std::invalid_argument for what does not fit.
  void restore(const TrainingState& state);

 private:
  struct Record {
    std::vector<Tensor> losses;  // of each batch, a sum
    Tensor gradient_norm;
    std::int64_t weight = 0, work = 0;
  };

  Record update(Tape& tape);
  // Returns the sum of a batch's losses and adds its gradients, divided by the weight of all batches of the update.
  // `last`: no other batch adds to them, and nobody else observes the tape.
  Tensor compute(const Examples& batch, std::int64_t random_step, std::int64_t total_weight, Tape& tape, bool last);
  std::size_t first_failure() const;  // among the records; as many as there are when all are finite
  std::string checked_update();       // makes it, and reports what was not finite
  std::string mend(std::size_t failed);
  void load(const TrainingState& state);
  void begin_records();

  Task& task_;
  Optimizer& optimizer_;
  const Schedule& schedule_;
  TrainerOptions options_;
  Communicator* communicator_;          // null: it is alone
  std::vector<Parameter*> parameters_;  // the model's
  // Those of them that the optimizer has: the others are frozen, and count in no norm.
  std::vector<Parameter*> trained_, clipped_adaptively_;
  std::optional<GradientSum> gradient_sum_;  // with a communicator
  Tape tape_;
  UpdateObserver* observer_ = nullptr;
  std::optional<WeightAverage> average_;
  ReportSums sums_;               // up to the last check()
  double gradient_norm_ = 0;      // of the last update then
  std::vector<Record> records_;   // since then
  TrainingState good_;            // a state since then that is finite,
  std::size_t good_records_ = 0;  // and how many of the records lie before it
  Clock::time_point since_;       // when the first of records_ began
};

}  // namespace foldgrad
