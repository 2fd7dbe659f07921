// Checkpoints that survive a kill, a full disk and damage:
//
//   CHECKPOINTS/step-00012000/model.safetensors optimizer.safetensors norm_state.safetensors state.json manifest.json
//   CHECKPOINTS/step-00012000/config.json vocabulary/     what makes it a model directory, model_directory.h
//   CHECKPOINTS/LATEST  BEST        one line each: "step-00012000"
//
// A checkpoint is written into a directory .part-step-00012000, every file brought to the disk, the manifest with sizes
// and SHA-256 digests last; then the directory is renamed and its parent brought to the disk; then LATEST is replaced.
// So a directory step-... is whole whenever the process or the machine stops.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/named_tensors.h"
#include "train/checks/checkpoint_error.h"

// Names in a directory of checkpoints.
namespace foldgrad::checkpoint_files {

std::string step_name(std::int64_t step);           // returns "step-00012000"
std::int64_t step_of(const std::string& name);      // returns -1 when it is no such name
std::string read_pointer(const std::string& path);  // returns the content of LATEST or BEST; empty without a valid one
std::vector<std::int64_t> steps_in(const std::string& checkpoints);  // returns them rising

}  // namespace foldgrad::checkpoint_files

namespace foldgrad {

struct CheckpointContents {
  std::int64_t step = 0;         // updates made
  std::string config_hash;       // config_hash() of the run
  std::uint64_t log_offset = 0;  // EventLog::offset()
  NamedTensors model, optimizer, norm_state;
  // An object of whatever else resuming needs: cursors, the best score. Finite numbers come back with the same bits.
  nlohmann::json state = nlohmann::json::object();
};

struct SaveOptions {
  std::int64_t keep = 5;  // newest checkpoints to keep, up to this step; the best is kept besides
  // The step that BEST names if its checkpoint exists; without one, BEST is removed.
  std::int64_t best = -1;
  // Writes into the checkpoint's directory what else belongs to it. Each checkpoint has files of its own: what damages
  // one leaves the others whole.
  std::function<void(const std::string& directory)> companions = {};
};

// Creates `checkpoints` when it is not there, and replaces a checkpoint of the same step. Throws FileError when the
// machine refuses (ENOSPC, EIO, ...): earlier checkpoints and what LATEST names are then as they were, or this one is
// already complete; calling it again is safe. Failing to remove old checkpoints is no error. One process at a time.
void save_checkpoint(const std::string& checkpoints, const CheckpointContents& contents, const SaveOptions& options);

// Compares files with the manifest, when there is one, but for those named in `without`. Throws CheckpointError.
void verify_checkpoint(const std::string& path, const std::vector<std::string>& without);

// Compares every file with the manifest first. Tensors are on the host. Throws CheckpointError.
CheckpointContents load_checkpoint(const std::string& path);

struct NewestCheckpoint {
  std::string path;
  CheckpointContents contents;
  std::vector<std::string> warnings;  // faults of the newer ones
};

// Loads the checkpoint that LATEST names; when that is damaged, the one before it and so on. Throws CheckpointError,
// which names the fault of each, when none can be loaded.
NewestCheckpoint load_newest_checkpoint(const std::string& checkpoints);

}  // namespace foldgrad
