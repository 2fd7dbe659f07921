// The contents of a run's checkpoints: everything that later updates, validations and the end of training depend on.
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
// Returns "tensor fc1.weight must be finite, got inf at [2, 5]" for contents that from_checkpoint() refuses. Otherwise
// empty.
std::string reason_to_refuse(const CheckpointContents& contents);
// Restores a state; `path` is for messages. Throws CheckpointError for a checkpoint of another program.
RunState from_checkpoint(const CheckpointContents& contents, const std::string& path);

// Throws CheckpointError if the configuration's trajectory keys differ from the checkpoint's. `before` is the file with
// the run's earlier configuration, from which the message lists the changes.
void require_same_trajectory(const NewestCheckpoint& checkpoint, const ExperimentConfig& config,
                             const std::string& before, bool allow_change);

// Throws CheckpointError if the digests of data files, by name, differ from those in env.json.
void require_same_data(const NewestCheckpoint& checkpoint, const RunDirectory& run,
                       const std::map<std::string, std::string>& digests);

}  // namespace foldgrad
