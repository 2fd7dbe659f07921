// Checkpoints that survive a kill, a full disk and damage:
//
//   CHECKPOINTS/step-00012000/model.safetensors optimizer.safetensors norm_state.safetensors state.json manifest.json
//   CHECKPOINTS/step-00012000/config.json vocabulary/     these make it a model directory (model_directory.h)
//   CHECKPOINTS/LATEST  BEST        one line each: "step-00012000"
//
// save_checkpoint() writes all files into a directory .part-step-00012000 and flushes each to disk. The last file is
// the manifest, with sizes and SHA-256 digests. Then it renames the directory, flushes its parent, and replaces LATEST
// and then BEST. So a directory step-... is complete, no matter when the process or the machine stops.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/named_tensors.h"
#include "train/checks/checkpoint_error.h"

// Names of files in a directory of checkpoints.
namespace foldgrad::checkpoint_files {

std::string step_name(std::int64_t step);           // returns "step-00012000"
std::int64_t step_of(const std::string& name);      // returns -1 if `name` is not a step_name()
std::string read_pointer(const std::string& path);  // returns the step name in LATEST or BEST; empty if it is not valid
std::vector<std::int64_t> steps_in(const std::string& checkpoints);  // returns the steps in ascending order

}  // namespace foldgrad::checkpoint_files

namespace foldgrad {

struct CheckpointContents {
  std::int64_t step = 0;         // number of updates made
  std::string config_hash;       // config_hash() of the run
  std::uint64_t log_offset = 0;  // EventLog::offset()
  NamedTensors model, optimizer, norm_state;
  // Other state that resuming needs, such as cursors and the best score. Finite numbers are restored bit-identically.
  nlohmann::json state = nlohmann::json::object();
};

struct SaveOptions {
  // Number of newest checkpoints to keep, up to this step; the best one is also kept. Checkpoints of later steps, left
  // from before a rollback, are neither counted nor removed.
  std::int64_t keep = 5;
  // The step that BEST should name. If that step has no checkpoint, BEST is removed.
  std::int64_t best = -1;
  // Writes more files into the checkpoint's directory. Checkpoints do not share files, so that damage stays within one.
  std::function<void(const std::string& directory)> companions = {};
};

// Saves a checkpoint. Creates `checkpoints` if it does not exist, and replaces a checkpoint of the same step. Throws
// FileError if writing fails (ENOSPC, EIO, ...). After an error, either this checkpoint is complete, or earlier
// checkpoints and LATEST are unchanged; calling again is safe. Failure to remove old checkpoints is not an error. Only
// one process may save at a time.
void save_checkpoint(const std::string& checkpoints, const CheckpointContents& contents, const SaveOptions& options);

// Compares all files except those in `without` with the manifest, if there is one. Throws CheckpointError.
void verify_checkpoint(const std::string& path, const std::vector<std::string>& without);

// Loads a checkpoint after comparing every file with the manifest. Its tensors are on the host. Throws CheckpointError.
CheckpointContents load_checkpoint(const std::string& path);

struct NewestCheckpoint {
  std::string path;
  CheckpointContents contents;
  std::vector<std::string> warnings;  // describe the faults of newer checkpoints
};

// Loads the checkpoint that LATEST names or, if that is damaged, the newest older one that is intact. If none can be
// loaded, throws a CheckpointError that names the fault of each checkpoint.
NewestCheckpoint load_newest_checkpoint(const std::string& checkpoints);

}  // namespace foldgrad
