// The start of a run: its configuration and its checkpoint, before any data is read.
#pragma once
#include <memory>
#include <optional>

#include "train/checkpoints/checkpoint.h"
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

// Makes the task with its model, which begins from that of train.from. A run that goes on has all in its checkpoint.
std::unique_ptr<Task> begin_task(RunStart& start, Device device);

// Gives a trainer the state of the checkpoint, and returns all of it. Throws CheckpointError.
RunState restore_trainer(Trainer& trainer, const NewestCheckpoint& from);

}  // namespace foldgrad
