// A model as files, which other programs can write and read too (docs/model_directory.md):
//
//   DIRECTORY/config.json              family, sizes and choices, train/tasks/families.h
//   DIRECTORY/model.safetensors        parameters by their names, shared ones once
//   DIRECTORY/norm_state.safetensors   buffers of the normalizers; may be absent when these have none
//   DIRECTORY/vocabulary/              what else its task has written, as text to ids and back; may be absent
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

// Returns where the model of `path` is: `path` itself when it has a config.json, otherwise what BEST or else LATEST
// names in `path`/checkpoints or `path`. Throws CheckpointError.
std::string find_model_directory(const std::string& path);

// Loads the model of find_model_directory(path). Tensors of any floating-point type are converted; names and shapes
// must be those that the configuration asks for, no more and no fewer, and all numbers finite unless `non_finite`
// allows others. Where there is a manifest.json, the files must have its digests. Throws CheckpointError: "FILE: what
// is wrong".
std::unique_ptr<Model> load_model(const std::string& path, DType dtype = DType::f32, Device device = Device::cpu,
                                  NonFinite non_finite = NonFinite::refuse);

// Returns the SHA-256 of config.json and of both files of tensors, by their names, as far as they are in a directory.
// Throws CheckpointError.
std::map<std::string, std::string> model_digests(const std::string& directory);

// Returns the config.toml of the run that saved the model of `path` as a checkpoint; empty without one.
std::string find_run_config(const std::string& path);

// Creates `directory`. `vocabulary` is a directory to be copied, unless empty or not there. config.json is written
// last: a directory without it is no model. Throws FileError, also when a model is there already;
// NonFiniteError, before anything is written, for a model with numbers that are not finite.
void write_model_directory(const std::string& directory, const Model& model, const std::string& vocabulary = "");

// Copies the vocabulary of a model to DIRECTORY/vocabulary and replaces one that an earlier attempt left there. Returns
// false if `vocabulary` is empty or not there. Throws FileError.
bool copy_vocabulary(const std::string& vocabulary, const std::string& directory);

// Writes config.json alone, and replaces one that is there. Creates `directory`. Throws FileError.
void write_model_config(const std::string& directory, const Model& model);

}  // namespace foldgrad
