// The start of a run: its configuration, and its checkpoint or pretrained model.
#pragma once
#include <memory>
#include <optional>

#include "train/checkpoints/checkpoint.h"
#include "train/checkpoints/model_directory.h"
#include "train/runs/resume.h"
#include "train/runs/training_run.h"
#include "train/tasks/families.h"

namespace foldgrad {

// The beginning of a run, or the point at which it resumes, as found in its directory before any data is read.
struct RunStart {
  ExperimentConfig config;                     // includes the number of shards of this start
  std::string data_root;                       // contains data.directory
  std::optional<NewestCheckpoint> checkpoint;  // no value if the run begins at step 0
  std::string from = {};                       // text of begin_from(); empty without a pretrained model
};

// Finds the start of a run. Reports unusual conditions on stderr. Throws ConfigError, CheckpointError, and FileError if
// a run exists but --resume was not given.
RunStart find_start(const TrainOptions& options);

// The model that training starts from, which train.from names (docs/training.md, "Fine-tuning").
struct Pretrained {
  std::string directory;         // path of a model directory
  std::unique_ptr<Model> model;  // f32, on the CPU
};

// Loads the model that train.from names, if any. Throws CheckpointError if it cannot be loaded, belongs to another
// family, or differs in a key that inference depends on.
std::optional<Pretrained> load_pretrained(const ExperimentConfig& config);

// Copies the parameters and the normalizers' state of `from` into `model`, except for the head if train.head asks for a
// new one. Returns a line of text that says what was copied. Throws CheckpointError, before anything has changed, if
// names or shapes of parameters or buffers differ.
std::string begin_from(const Pretrained& from, Model& model, const TrainConfig& config);

// Makes the task and its model. The model of a new run begins with the values of train.from, if that is set; a resumed
// run ignores train.from, since its checkpoint has all values.
std::unique_ptr<Task> begin_task(RunStart& start, Device device);

// Restores a trainer from the checkpoint, and returns the checkpoint's whole state. Throws CheckpointError.
RunState restore_trainer(Trainer& trainer, const NewestCheckpoint& from);

}  // namespace foldgrad
