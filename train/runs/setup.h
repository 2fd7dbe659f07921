// Makes the parts of a training run from a configuration.
#pragma once
#include "train/analyses/recorder.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"

namespace foldgrad {

// Checks everything that can be checked without data: keys that contradict each other, and impossible sizes. Throws
// ConfigError or std::invalid_argument. `foldgrad config` and `train` both call it.
void require_trainable(const ExperimentConfig& config);

// Returns the configuration with `steps` and `warmup` computed from `epochs` and `warmup_epochs`, if these are set, and
// rounded up to whole updates. Throws ConfigError if they are set but the data has no epochs (batches_per_epoch = 0),
// or if a cosine schedule would end within the warm-up.
TrainConfig with_epochs_counted(const TrainConfig& config, std::int64_t batches_per_epoch);

// Groups the parameters by their weight decay (train.no_decay) and their learning-rate factor (train.rates).
// Leaves out parameters that train.freeze names. Throws ConfigError if a pattern matches no parameter, or if no
// parameter is left.
std::vector<ParameterGroup> parameter_groups(Model& model, const TrainConfig& config);
// Returns "learning rates: 1290 parameters x 1, 479680 parameters x 0.01, 256 frozen", or "" if all factors are 1 and
// no parameter is frozen.
std::string learning_rates(const Model& model, const std::vector<ParameterGroup>& groups);
Optimizer::Rule optimizer_rule(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);

// The task, optimizer, schedule, trainer and recorder of a run. The constructor throws ConfigError if validate.patience
// is set when validating on the test set, since early stopping would then select by test scores. It also throws
// ConfigError if a recording phase extends beyond the last update.
struct Training {
  // A recording covers the whole batch: all ranks take part, and rank 0 saves it in the directory `statistics`.
  Training(const ExperimentConfig& experiment, std::unique_ptr<Task> task, Communicator* communicator,
           const std::string& statistics);

  std::unique_ptr<Task> task;
  TrainConfig config;  // the experiment's TrainConfig after with_epochs_counted()
  Optimizer optimizer;
  Schedule schedule;
  Trainer trainer;
  Recorder recorder;
};

}  // namespace foldgrad
