#include "train/checkpoints/model_directory.h"

#include <filesystem>

#include "engine/dispatch.h"
#include "engine/files/atomic_file.h"
#include "engine/files/safetensors.h"
#include "train/checkpoints/checkpoint.h"
#include "train/system/digest.h"
#include "train/system/json_file.h"
#include "train/tasks/families.h"

namespace foldgrad {
namespace {

constexpr const char* kConfig = "/config.json";
constexpr const char* kModel = "/model.safetensors";
constexpr const char* kNormState = "/norm_state.safetensors";

// Returns the tensor `name`, which must have this shape. Integers must be `dtype`; floating point is converted to it.
Tensor fitting(const std::string& file, const NamedTensors& tensors, const std::string& name, const Shape& shape,
               DType dtype) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw FileError(file, fmt::format("must have a tensor {} {} according to config.json, got none", name, shape));
  const Tensor& t = found->second;
  if (t.shape() != shape)
    throw FileError(file, fmt::format("tensor {} must be {} according to config.json, got {}", name, shape, t.shape()));
  if (t.dtype() == dtype) return t;
  if (is_floating(dtype) && is_floating(t.dtype())) return t.to(dtype);
  throw FileError(
      file, fmt::format("tensor {} must be {}, got {}", name,
                        is_floating(dtype) ? "of floating point" : foldgrad::name(dtype), foldgrad::name(t.dtype())));
}

// Checks the numbers after conversion, since an f64 number in the file may be too large for f32.
void fill(NamedTensors own, const std::string& file, const NamedTensors& tensors, NonFinite non_finite) {
  for (auto& [name, value] : own) {
    const Tensor t = fitting(file, tensors, name, value.shape(), value.dtype());
    const bool allowed = non_finite == NonFinite::allow && is_floating(t.dtype());
    if (const std::string reason = reason_to_refuse(t); !reason.empty() && !allowed)
      throw FileError(file, fmt::format("tensor {} {}", name, reason));
    value.copy_from(t);
  }
  for (const auto& [name, tensor] : tensors)
    if (!own.count(name))
      throw FileError(file, fmt::format("has a tensor {}, which config.json does not mention", name));
}

// Throws CheckpointError if a file is too large for a vocabulary. A sparse file, say, would take hours to copy.
void require_vocabulary(const std::string& directory) try {
  constexpr std::uint64_t kMostBytes = std::uint64_t(1) << 28;  // the limit of read_file()
  if (!file_exists(directory)) return;
  for (const auto& path : paths_in(directory))
    if (const std::uint64_t bytes = InputFile(path).size(); bytes > kMostBytes)
      throw FileError(path, fmt::format("must have at most {} bytes, got {}", kMostBytes, bytes));
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

}  // namespace

std::string find_model_directory(const std::string& path) {
  if (file_exists(path + kConfig)) return path;
  for (const std::string& checkpoints : {path + "/checkpoints", path})
    for (const char* pointer : {"/BEST", "/LATEST"}) {
      const std::string name = checkpoint_files::read_pointer(checkpoints + pointer);
      if (!name.empty() && file_exists(checkpoints + "/" + name + kConfig)) return checkpoints + "/" + name;
    }
  throw CheckpointError(path + (file_exists(path)
                                    ? ": is not a model; it has no config.json, and no checkpoint with one"
                                    : ": there is no such file or directory"));
}

std::unique_ptr<Model> load_model(const std::string& path, DType dtype, Device device, NonFinite non_finite) {
  const std::string directory = find_model_directory(path), config_file = directory + kConfig;
  try {
    const nlohmann::json config = read_json(config_file);
    const Family& family = family_of(config);
    const Section keys = family.from_json(config);
    const ExpectedParameters expected = family.expected_parameters(keys);
    verify_checkpoint(directory, {"optimizer.safetensors"});
    const std::string file = directory + kModel, state_file = directory + kNormState;
    const NamedTensors tensors = read_safetensors(file).tensors;
    for (const auto& [name, shape] : expected) fitting(file, tensors, name, shape, DType::f32);
    std::unique_ptr<Model> model = family.make(keys, std::nullopt, dtype, device);
    fill(model->values(), file, tensors, non_finite);
    if (!model->state().empty() || file_exists(state_file)) {
      const NamedTensors state = read_safetensors(state_file).tensors;
      fill(model->state_for(state), state_file, state, non_finite);
    }
    return model;
  } catch (const FileError& e) {
    throw CheckpointError(e.what());
  } catch (const std::invalid_argument& e) {  // thrown by the family or its normalizers
    throw CheckpointError(config_file + ": " + e.what());
  }
}

std::map<std::string, std::string> model_digests(const std::string& directory) try {
  std::map<std::string, std::string> digests;
  for (const std::string name : {kConfig, kModel, kNormState})
    if (file_exists(directory + name)) digests[name.substr(1)] = sha256_of_file(directory + name);
  return digests;
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

std::string find_run_config(const std::string& path) {
  namespace fs = std::filesystem;
  for (const std::string& run : {path, path + "/..", path + "/../.."}) {
    const fs::path config = run + "/config.toml", normal = config.lexically_normal();
    if (!file_exists(config) || !file_exists(run + "/checkpoints")) continue;
    std::error_code ignored;
    // If `path` is a symbolic link, the normalized path may lead to another file, or to none.
    return fs::equivalent(config, normal, ignored) ? normal : config;
  }
  return "";
}

bool copy_vocabulary(const std::string& vocabulary, const std::string& directory) {
  if (vocabulary.empty() || !file_exists(vocabulary)) return false;
  require_vocabulary(vocabulary);
  std::error_code error;
  using std::filesystem::copy_options;  // overwrites what a failed attempt left
  std::filesystem::copy(vocabulary, directory + "/vocabulary",
                        copy_options::recursive | copy_options::overwrite_existing, error);
  if (error) throw FileError(directory + "/vocabulary", "cannot be copied from " + vocabulary, error.value());
  return true;
}

void write_model_config(const std::string& directory, const Model& model) {
  make_directories(directory);
  write_file_atomically(directory + kConfig, model_json(model).dump(2) + "\n");
}

void write_model_directory(const std::string& directory, const Model& model, const std::string& vocabulary) {
  if (file_exists(directory + kConfig))
    throw FileError(directory, "already holds a model; remove it, or choose another directory with -o");
  if (file_exists(directory + "/config.toml") || file_exists(directory + "/checkpoints"))
    throw FileError(directory, "is a run, which has its own models; choose another directory");
  if (const auto bad = non_finite_tensors(model); !bad.empty())
    throw NonFiniteError(fmt::format("{}: was not written, since the model has {}", directory, bad[0]));
  require_vocabulary(vocabulary);
  make_directories(directory);
  write_safetensors(directory + kModel, model.values());
  write_safetensors(directory + kNormState, model.state());
  (void)copy_vocabulary(vocabulary, directory);
  write_model_config(directory, model);
}

}  // namespace foldgrad
