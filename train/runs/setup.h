// A configuration's keys, as what training is made of takes them.
#pragma once
#include "train/config/config.h"
#include "train/loop/trainer.h"

namespace foldgrad {

// What can be known before the data is read: keys that do not go together, and sizes that no model can have. Throws
// ConfigError or std::invalid_argument. `foldgrad config` and `train` both ask.
void require_trainable(const ExperimentConfig& config);

Optimizer::Rule optimizer_rule(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);
TrainerOptions trainer_options(const TrainConfig& config);

}  // namespace foldgrad
