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
  ExperimentConfig config;                     // its number of shards is that of this start
  std::string data_root;                       // contains data.directory
  std::optional<NewestCheckpoint> checkpoint;  // no value if the run begins at step 0
  std::string from = {};                       // the text of begin_from(); empty without a pretrained model
};

// Reports unusual conditions on stderr. Throws ConfigError, CheckpointError, and FileError if a run exists that was not
// to be resumed.
RunStart find_start(const TrainOptions& options);

// A model that training starts from, given by train.from (docs/training.md, "Fine-tuning").
struct Pretrained {
  std::string directory;         // a model directory
  std::unique_ptr<Model> model;  // f32, on the CPU
};

// Loads the model of train.from, if there is one. Throws CheckpointError if it is not a model, is of another family, or
// differs in a key that inference depends on.
std::optional<Pretrained> load_pretrained(const ExperimentConfig& config);

// Gives `model` the values and the state of `from`, except for a new head. Returns a line of text that says what was
// done. Throws CheckpointError, before anything has changed, if names or shapes of parameters or buffers differ.
std::string begin_from(const Pretrained& from, Model& model, const TrainConfig& config);

// Makes the task with its model, which begins with the values of train.from. A resumed run takes all from its
// checkpoint.
std::unique_ptr<Task> begin_task(RunStart& start, Device device);

// Gives a trainer the state of the checkpoint, and returns the whole state. Throws CheckpointError.
RunState restore_trainer(Trainer& trainer, const NewestCheckpoint& from);

}  // namespace foldgrad
