// The contents of a run's checkpoints: all that the next updates, validations and the end depend on.
//
//   model.safetensors      the weights that were validated: with train.average_decay their moving average
//   norm_state.safetensors the normalizers' states; with train.average_statistics the averages of running statistics
//   optimizer.safetensors  as Optimizer::state(); with an average also the weights in training, as weight.NAME, and
//                          statistics that have an average, as statistic.NAME
#pragma once
#include "train/checkpoints/checkpoint.h"
#include "train/config/config.h"
#include "train/loop/trainer.h"
#include "train/runs/directory.h"
#include "train/runs/selection.h"

namespace foldgrad {

struct RunState {
  TrainingState training;
  BestValidation best;
  std::int64_t without_better = 0;  // validations since the best
};

// Returns contents on the host. The state's tensors may be on any device.
CheckpointContents to_checkpoint(const RunState& state, std::int64_t step, const std::string& config_hash,
                                 std::uint64_t log_offset);
// Returns "tensor fc1.weight must be finite, got inf at [2, 5]" for contents that from_checkpoint() refuses, otherwise
// an empty text.
std::string reason_to_refuse(const CheckpointContents& contents);
// Restores a state; `path` is for messages. Throws CheckpointError for a checkpoint that another program wrote.
RunState from_checkpoint(const CheckpointContents& contents, const std::string& path);

// Throws CheckpointError when the configuration's trajectory keys are no longer those of the checkpoint. `before` is
// the file that the run's configuration was written to, from which the message names what has changed.
void require_same_trajectory(const NewestCheckpoint& checkpoint, const ExperimentConfig& config,
                             const std::string& before, bool allow_change);

// Throws CheckpointError when data files, whose digests these are by name, are no longer those that env.json names.
void require_same_data(const NewestCheckpoint& checkpoint, const RunDirectory& run,
                       const std::map<std::string, std::string>& digests);

}  // namespace foldgrad
