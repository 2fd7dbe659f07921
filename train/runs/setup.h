// Makes the parts of training from the keys of a configuration.
#pragma once
#include "train/analyses/recorder.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"

namespace foldgrad {

// Checks everything that needs no data: keys that contradict each other, and sizes that are impossible. Throws
// ConfigError or std::invalid_argument. `foldgrad config` and `train` both call it.
void require_trainable(const ExperimentConfig& config);

// Returns the configuration with `steps` and `warmup` computed from epochs, if it has them, rounded up to whole
// updates. Throws ConfigError if it has epochs but the data has none (batches_per_epoch = 0), or if a cosine would end
// within the warm-up.
TrainConfig with_epochs_counted(const TrainConfig& config, std::int64_t batches_per_epoch);

// Returns groups of parameters with the same weight decay and factor of the learning rate, as train.no_decay and
// train.rates say. Leaves out the parameters that train.freeze names. Throws ConfigError for a pattern without a match,
// and if no parameter is left.
std::vector<ParameterGroup> parameter_groups(Model& model, const TrainConfig& config);
// Returns "learning rates: 1290 parameters x 1, 479680 parameters x 0.01, 256 frozen", or "" if all have the same rate.
std::string learning_rates(const Model& model, const std::vector<ParameterGroup>& groups);
Optimizer::Rule optimizer_rule(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);

// The parts of a run that learn, and their recorder. Throws ConfigError for patience when validating on the test set,
// since early stopping would select on it, and for a recording phase that reaches beyond the updates.
struct Training {
  // A recording is of the whole batch: all ranks take part, and rank 0 saves it in the directory `statistics`.
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
