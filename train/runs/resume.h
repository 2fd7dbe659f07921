// The contents of a run's checkpoints: everything that later updates, validations and the end of training depend on.
//
//   model.safetensors      the weights that were validated: with train.average_decay their moving average
//   norm_state.safetensors the normalizers' states; with train.average_statistics the averages of running statistics
//   optimizer.safetensors  Optimizer::state(); if the files above have averages, also the weights that are trained, as
//                          weight.NAME, and the running statistics, as statistic.NAME
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
  std::int64_t without_better = 0;  // number of validations since the best one
};

// Returns the checkpoint's contents, with all tensors on the CPU. The state's tensors may be on any device.
CheckpointContents to_checkpoint(const RunState& state, std::int64_t step, const std::string& config_hash,
                                 std::uint64_t log_offset);
// Returns the reason for which from_checkpoint() refuses a tensor of these contents, such as "tensor fc1.weight must be
// finite, got inf at [2, 5]", or an empty string if it accepts all tensors.
std::string reason_to_refuse(const CheckpointContents& contents);
// Restores a state; `path` is only for messages. Throws CheckpointError if a tensor is refused, or if state.json lacks
// a member or has one of the wrong type.
RunState from_checkpoint(const CheckpointContents& contents, const std::string& path);

// Throws CheckpointError if the trajectory keys of the configuration and of the checkpoint differ. `before` is the file
// with the run's earlier configuration; the message lists the keys that have changed.
void require_same_trajectory(const NewestCheckpoint& checkpoint, const ExperimentConfig& config,
                             const std::string& before, bool allow_change);

// Throws CheckpointError if the digest of a data file differs from the digest in env.json. `digests` maps the names of
// files to their digests.
void require_same_data(const NewestCheckpoint& checkpoint, const RunDirectory& run,
                       const std::map<std::string, std::string>& digests);

}  // namespace foldgrad
