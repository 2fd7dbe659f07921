// A model as files, which other programs can also read and write (docs/model_directory.md):
//
//   DIRECTORY/config.json              family, sizes and choices (train/tasks/families.h)
//   DIRECTORY/model.safetensors        parameters by their names, shared ones once
//   DIRECTORY/norm_state.safetensors   the normalizers' buffers; may be absent if there are none
//   DIRECTORY/vocabulary/              other files of the task, which convert text to ids and back; may be absent
//
// Every checkpoint of a run is such a directory, and so is a folded model.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "models/model.h"
#include "train/checks/checkpoint_error.h"
#include "train/checks/finite.h"

namespace foldgrad {

// Returns the directory of the model at `path`: `path` itself if it has a config.json, otherwise the checkpoint in
// `path`/checkpoints or in `path` that BEST names or, if there is none, that LATEST names. Throws CheckpointError.
std::string find_model_directory(const std::string& path);

// Loads the model in find_model_directory(path). Converts tensors of any floating-point type to `dtype`. Throws
// CheckpointError ("FILE: the reason") unless the names and shapes match the configuration exactly, all numbers are
// finite or `non_finite` allows NaN and infinity, and the files' digests match manifest.json, if it exists.
std::unique_ptr<Model> load_model(const std::string& path, DType dtype = DType::f32, Device device = Device::cpu,
                                  NonFinite non_finite = NonFinite::refuse);

// Returns the SHA-256 of config.json and of the tensor files, if they exist, by file name. Throws CheckpointError.
std::map<std::string, std::string> model_digests(const std::string& directory);

// Returns the path of the config.toml of a run. `path` is the run, its folder `checkpoints`, or a checkpoint in that
// folder. Returns "" for any other path.
std::string find_run_config(const std::string& path);

// Creates `directory` and writes the model. `vocabulary` is a directory to copy, or empty; it need not exist.
// config.json is written last, since a directory without it is not a model. Throws FileError if writing fails or if
// `directory` already contains a model. Throws NonFiniteError, before writing, if a number is not finite.
void write_model_directory(const std::string& directory, const Model& model, const std::string& vocabulary = "");

// Copies the vocabulary of a model to DIRECTORY/vocabulary, replacing one from an earlier attempt. Returns false if
// `vocabulary` is empty or missing. Throws FileError.
bool copy_vocabulary(const std::string& vocabulary, const std::string& directory);

// Writes only config.json, replacing an existing one. Creates `directory`. Throws FileError.
void write_model_config(const std::string& directory, const Model& model);

}  // namespace foldgrad
