// A configuration's keys, as what training is made of takes them.
#pragma once
#include "train/analyses/recorder.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"

namespace foldgrad {

// Checks what needs no data: keys that do not go together, and sizes that no model can have. Throws
// ConfigError or std::invalid_argument. `foldgrad config` and `train` both ask.
void require_trainable(const ExperimentConfig& config);

// With `steps` and `warmup` that follow from epochs where the configuration has these, rounded up to whole updates.
// Throws ConfigError where it has and there are no epochs (batches_per_epoch = 0), or where
// a cosine would end within the warm-up.
TrainConfig with_epochs_counted(const TrainConfig& config, std::int64_t batches_per_epoch);

// The phases in a run of so many updates, "begin" before "end". Throws ConfigError for one that reaches beyond it.
std::vector<RecordPhase> record_phases(const RecordConfig& config, std::int64_t updates);

// Parameters of equal weight decay and factor of the learning rate, by train.no_decay and train.rates; those that
// train.freeze names are in none. Throws ConfigError for a pattern that fits no parameter, and where none is left.
std::vector<ParameterGroup> parameter_groups(Model& model, const TrainConfig& config);
// "learning rates: 1290 parameters x 1, 479680 parameters x 0.01, 256 frozen", or "" where all learn alike.
std::string learning_rates(const Model& model, const std::vector<ParameterGroup>& groups);
Optimizer::Rule optimizer_rule(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);

// All that learns in a run. Throws ConfigError for patience where the test set is validated on: early stopping would
// select on it.
struct Training {
  Training(const ExperimentConfig& experiment, std::unique_ptr<Task> task, Communicator* communicator = nullptr);

  std::unique_ptr<Task> task;
  TrainConfig config;  // of the experiment, with epochs counted
  Optimizer optimizer;
  Schedule schedule;
  Trainer trainer;
};

}  // namespace foldgrad
