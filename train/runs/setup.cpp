#include "train/runs/setup.h"

#include "train/tasks/families.h"

namespace foldgrad {

void require_trainable(const ExperimentConfig& config) {
  const std::unique_ptr<Model> smallest = family(config.family).smallest_model(config);
  (void)Schedule(schedule_options(config.train));
  (void)Optimizer(optimizer_rule(config.train),
                  {{.parameters = smallest->parameters(), .weight_decay = config.train.weight_decay}});
}

Optimizer::Rule optimizer_rule(const TrainConfig& t) {
  if (t.optimizer == "sgd") return Sgd{t.momentum, t.nesterov};
  if (t.optimizer == "adamw") return AdamW{t.beta1, t.beta2, t.eps};
  return Adam{t.beta1, t.beta2, t.eps};
}

ScheduleOptions schedule_options(const TrainConfig& t) {
  ScheduleOptions s{.name = t.schedule, .peak = t.lr, .initial = t.initial_lr, .warmup = t.warmup};
  if (t.schedule == "cosine") s.minimum = t.minimum_lr, s.total = t.steps;
  return s;
}

TrainerOptions trainer_options(const TrainConfig& t) {
  return {.clip = t.clip,
          .agc = t.agc,
          .agc_exclude_output = t.agc_exclude == "output",
          .accumulate = t.accumulate,
          .seed = std::uint64_t(t.seed),
          .dtype = t.dtype == "bf16" ? DType::bf16 : DType::f32,
          .on_nan = t.on_nan == "skip"       ? OnNan::skip
                    : t.on_nan == "rollback" ? OnNan::rollback
                                             : OnNan::abort,
          .average_decay = t.average_decay};
}

}  // namespace foldgrad
