// The start of a run: its configuration, and its checkpoint or the model that it begins from.
#pragma once
#include <memory>
#include <optional>

#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/runs/resume.h"
#include "train/runs/training_run.h"
#include "train/tasks/families.h"

namespace foldgrad {

// The beginning of a run, or the place where it goes on, as its directory has it before any data is read.
struct RunStart {
  ExperimentConfig config;                     // with the number of shards that this start has
  std::string data_root;                       // data.directory lies below it
  std::optional<NewestCheckpoint> checkpoint;  // none: it begins at step 0
  std::string from = {};                       // begin_from()'s account; empty: it begins from no model
};

// Reports on stderr what is out of the ordinary. Throws ConfigError, CheckpointError, and FileError when a run is there
// which was not to be resumed.
RunStart find_start(const TrainOptions& options);

// A model that a training begins from, as train.from says (docs/training.md, "Fine-tuning").
struct Pretrained {
  std::string directory;         // a model directory
  std::unique_ptr<Model> model;  // f32, on the CPU
};

// Loads the model of train.from; none without that. Throws CheckpointError for what is no model, one of another family,
// and one that differs in a key that inference depends on.
std::optional<Pretrained> load_pretrained(const ExperimentConfig& config);

// Gives `model` the values and the state of `from`, but for a new head. Returns what was done, as text: one line.
// Throws CheckpointError, before anything has changed, for parameters and buffers that do not fit by name and shape.
std::string begin_from(const Pretrained& from, Model& model, const TrainConfig& config);

// Makes the task with its model, which begins from that of train.from. A run that goes on has all in its checkpoint.
std::unique_ptr<Task> begin_task(RunStart& start, Device device);

// Gives a trainer the state of the checkpoint, and returns all of it. Throws CheckpointError.
RunState restore_trainer(Trainer& trainer, const NewestCheckpoint& from);

}  // namespace foldgrad
