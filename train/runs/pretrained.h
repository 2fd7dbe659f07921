// A training that begins from a model, as train.from says (docs/training.md, "Fine-tuning").
#pragma once
#include <optional>

#include "train/checkpoints/model_directory.h"
#include "train/config/config.h"

namespace foldgrad {

struct Pretrained {
  std::string directory;         // a model directory
  std::unique_ptr<Model> model;  // f32, on the CPU
};

// None without train.from. Throws CheckpointError for what is no model, one of another family, and one that differs in
// a key that inference depends on.
std::optional<Pretrained> load_pretrained(const ExperimentConfig& config);

// Gives `model` the values and the state of `from`, but for a new head. Returns what was done, as text: one line.
// Throws CheckpointError, before anything has changed, for parameters and buffers that do not fit by name and shape.
std::string begin_from(const Pretrained& from, Model& model, const TrainConfig& config);

}  // namespace foldgrad
