// Where a run begins or goes on: what its directory says, before any data is read.
#pragma once
#include <optional>

#include "train/checkpoints/checkpoint.h"
#include "train/config/config.h"
#include "train/runs/training_run.h"

namespace foldgrad {

struct RunStart {
  ExperimentConfig config;
  std::string data_root;                       // data.directory lies below it
  std::optional<NewestCheckpoint> checkpoint;  // none: it begins at step 0
};

// Tells on stderr what is out of the ordinary. Throws ConfigError, CheckpointError, and FileError when a run is there
// which was not to be resumed.
RunStart find_start(const TrainOptions& options);

}  // namespace foldgrad
