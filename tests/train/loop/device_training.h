// Training on the device, on one batch that comes again and again, so that every step takes the same memory. It is of
// two sentences, and the model as narrow as can be: an emulated thread is a slow one.
#pragma once
#include "models/normalizers/normalizer.h"
#include "tests/train/tiny_training.h"

namespace foldgrad::testing {

// Options of a normalizer with which a few steps reach all that it does.
inline std::map<std::string, std::string> hasty_options(const NormalizerInfo& info, std::int64_t channels) {
  std::map<std::string, std::string> options;
  for (const NormalizerOption& option : info.options) {
    if (option.name == "warmup" || option.name == "window") options[option.name] = "2";
    if (option.name == "filtration") options[option.name] = "1";
    if (option.name == "groups") options[option.name] = std::to_string(channels / 2);
  }
  return options;
}

inline TransformerConfig narrow_config(TransformerConfig config) {
  config.width = config.ffn_width = 8, config.heads = 2;
  config.normalizer_options = hasty_options(normalizer_info(config.normalizer), config.width);
  return config;
}

struct DeviceTraining {
  DeviceTraining(const TransformerConfig& config, const TrainerOptions& options, const Optimizer::Rule& rule = Adam{})
      : model(config, /*seed=*/3, DType::f32, Device::cuda),
        optimizer(rule, {{.parameters = model.parameters()}}),
        schedule({.shape = ScheduleShape::inverse_sqrt, .peak = 5e-3, .warmup = 4}),
        batches(copies(26, 1000), {.max_tokens = 4096, .shuffle = false}),
        task(model, batches),
        trainer(task, optimizer, schedule, options) {
    FOLDGRAD_CHECK(batches.per_epoch() == 1, "one batch was wanted, got {}", batches.per_epoch());
  }

  Transformer model;
  Optimizer optimizer;
  Schedule schedule;
  Batches batches;
  BatchTask task;
  Trainer trainer;
};

}  // namespace foldgrad::testing
