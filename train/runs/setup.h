// The keys of a configuration as the parts of training take them.
#pragma once
#include "train/analyses/recorder.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"

namespace foldgrad {

// Checks what needs no data: keys that do not go together, and sizes that no model can have. Throws ConfigError or
// std::invalid_argument. `foldgrad config` and `train` both call it.
void require_trainable(const ExperimentConfig& config);

// Returns the configuration with `steps` and `warmup` that follow from epochs where it has these, rounded up to whole
// updates. Throws ConfigError where it has epochs and the data none (batches_per_epoch = 0), or where a cosine would
// end within the warm-up.
TrainConfig with_epochs_counted(const TrainConfig& config, std::int64_t batches_per_epoch);

// Returns groups of equal weight decay and factor of the learning rate, by train.no_decay and train.rates; parameters
// that train.freeze names are in none. Throws ConfigError for a pattern that fits no parameter, and where none is left.
std::vector<ParameterGroup> parameter_groups(Model& model, const TrainConfig& config);
// Returns "learning rates: 1290 parameters x 1, 479680 parameters x 0.01, 256 frozen", or "" where all learn alike.
std::string learning_rates(const Model& model, const std::vector<ParameterGroup>& groups);
Optimizer::Rule optimizer_rule(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);

// All that learns in a run, and its recorder. Throws ConfigError for patience where the test set is validated on: early
// stopping would select on it; and for a phase of recording that reaches beyond the updates.
struct Training {
  // A recording is of the whole batch: all ranks take part in it, and rank 0 saves it, in the directory `statistics`.
  Training(const ExperimentConfig& experiment, std::unique_ptr<Task> task, Communicator* communicator,
           const std::string& statistics);

  std::unique_ptr<Task> task;
  TrainConfig config;  // of the experiment, with epochs counted
  Optimizer optimizer;
  Schedule schedule;
  Trainer trainer;
  Recorder recorder;
};

}  // namespace foldgrad
