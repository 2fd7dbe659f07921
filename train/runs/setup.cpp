#include "train/runs/setup.h"

namespace foldgrad {

void require_trainable(const ExperimentConfig& config) {
  require_usable(config.data);
  (void)Schedule(schedule_options(config.train));
  TransformerConfig model = config.model;
  model.source_vocabulary = model.target_vocabulary = 8;  // the smallest: the data decide
  model.validate();
  // Normalizers and the optimizer say what they refuse when they are made.
  model.encoder_layers = model.decoder_layers = model.max_positions = 1;
  Transformer smallest(model, /*seed=*/0);
  (void)Optimizer(optimizer_rule(config.train),
                  {{.parameters = smallest.parameters(), .weight_decay = config.train.weight_decay}});
}

TransformerConfig model_config(const ExperimentConfig& config, const ExperimentData& data) {
  TransformerConfig model = config.model;
  model.source_vocabulary = data.vocabulary.source_size(), model.target_vocabulary = data.vocabulary.target_size();
  return model;
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
  return {.label_smoothing = t.label_smoothing,
          .clip = t.clip,
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
