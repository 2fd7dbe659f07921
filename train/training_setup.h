// A configuration's keys, as what training is made of takes them.
#pragma once
#include "train/config.h"
#include "train/data/experiment_data.h"
#include "train/trainer.h"

namespace foldgrad {

TransformerConfig model_config(const ExperimentConfig& config, const ExperimentData& data);
Optimizer::Rule optimizer_rule(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);
TrainerOptions trainer_options(const TrainConfig& config);

}  // namespace foldgrad
