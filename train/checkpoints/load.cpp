#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/contains.h"
#include "engine/files/file.h"
#include "engine/files/safetensors.h"
#include "train/checkpoints/checkpoint.h"
#include "train/system/digest.h"
#include "train/system/json_file.h"

namespace foldgrad::checkpoint_files {

std::string step_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  std::int64_t step = -1;
  if (name.rfind(kPrefix, 0) != 0) return -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && name == step_name(step) ? step : -1;
}

std::string read_pointer(const std::string& path) {
  try {
    std::string name = read_file(path);
    if (!name.empty() && name.back() == '\n') name.pop_back();
    return step_of(name) >= 0 ? name : "";
  } catch (const FileError&) {
    return "";
  }
}

std::vector<std::int64_t> steps_in(const std::string& checkpoints) {
  std::vector<std::int64_t> steps;
  for (const auto& path : paths_in(checkpoints, /*optional=*/true))
    if (const std::int64_t step = step_of(path.filename()); step >= 0) steps.push_back(step);
  std::ranges::sort(steps);
  return steps;
}

}  // namespace foldgrad::checkpoint_files

namespace foldgrad {
namespace {

using namespace checkpoint_files;
using nlohmann::json;

template <class T>
T field(const json& object, const char* key, const std::string& path) {
  try {
    return object.at(key).get<T>();
  } catch (const json::exception&) {
    throw FileError(path, fmt::format("\"{}\" is missing or of another type", key));
  }
}

void verify_file(const std::string& file, const json& entry, const std::string& manifest_path) {
  const auto want_bytes = field<std::uint64_t>(entry, "bytes", manifest_path), bytes = InputFile(file).size();
  if (bytes != want_bytes)
    throw FileError(file, fmt::format("must have {} bytes by the manifest, got {}", want_bytes, bytes));
  const auto want = field<std::string>(entry, "sha256", manifest_path), digest = sha256_of_file(file);
  if (digest != want) throw FileError(file, fmt::format("must have SHA-256 {} by the manifest, got {}", want, digest));
}

void verify(const std::string& path, const std::vector<std::string>& without) {
  const std::string manifest_path = path + "/" + kManifest;
  const json manifest = read_json(manifest_path);
  const int version = field<int>(manifest, "format_version", manifest_path);
  if (version != kFormatVersion)
    throw FileError(manifest_path, fmt::format("format_version must be {}, got {}", kFormatVersion, version));
  const json files = field<json>(manifest, "files", manifest_path);
  for (const char* part : kParts) (void)field<json>(files, part, manifest_path);
  for (const auto& [name, entry] : files.items())
    if (!contains(without, name)) verify_file(path + "/" + name, entry, manifest_path);
}

// LATEST first, then older ones, newest first; those above LATEST last: they belong to a run that was rolled back.
std::vector<std::string> candidates(const std::string& checkpoints) {
  std::vector<std::int64_t> steps = steps_in(checkpoints);
  std::ranges::reverse(steps);
  const std::string latest = read_pointer(checkpoints + "/LATEST");
  const std::int64_t first = latest.empty() ? std::numeric_limits<std::int64_t>::max() : step_of(latest);
  std::stable_partition(steps.begin(), steps.end(), [&](std::int64_t step) { return step <= first; });
  std::vector<std::string> names;
  if (!latest.empty()) names.push_back(latest);
  for (std::int64_t step : steps)
    if (step != first) names.push_back(step_name(step));
  return names;
}

}  // namespace

void verify_checkpoint(const std::string& path, const std::vector<std::string>& without) try {
  if (file_exists(path + "/" + kManifest)) verify(path, without);
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

CheckpointContents load_checkpoint(const std::string& path) try {
  verify(path, {});
  const std::string base = path + "/", state_path = base + kParts[3];
  CheckpointContents c;
  c.model = read_safetensors(base + kParts[0]).tensors;
  c.optimizer = read_safetensors(base + kParts[1]).tensors;
  c.norm_state = read_safetensors(base + kParts[2]).tensors;
  const json state = read_json(state_path);
  c.step = field<std::int64_t>(state, "step", state_path);
  c.config_hash = field<std::string>(state, "config_hash", state_path);
  c.log_offset = field<std::uint64_t>(state, "log_offset", state_path);
  c.state = field<json>(state, "state", state_path);
  return c;
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

NewestCheckpoint load_newest_checkpoint(const std::string& checkpoints) {
  NewestCheckpoint newest;
  for (const std::string& name : candidates(checkpoints)) {
    newest.path = checkpoints + "/" + name;
    try {
      newest.contents = load_checkpoint(newest.path);
      return newest;
    } catch (const CheckpointError& e) {
      newest.warnings.push_back(e.what());
    }
  }
  if (newest.warnings.empty()) throw CheckpointError(checkpoints + ": there are no checkpoints");
  throw CheckpointError(fmt::format("{}: none of {} checkpoints can be loaded:\n{}", checkpoints,
                                    newest.warnings.size(), fmt::join(newest.warnings, "\n")));
}

}  // namespace foldgrad
