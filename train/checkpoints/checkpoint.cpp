#include "train/checkpoints/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "engine/contains.h"
#include "engine/files/atomic_file.h"
#include "engine/files/safetensors.h"
#include "train/system/digest.h"
#include "train/system/json_file.h"

namespace foldgrad::checkpoint_files {

std::string step_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  std::int64_t step = -1;
  if (!name.starts_with(kPrefix)) return -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && name == step_name(step) ? step : -1;
}

std::string read_pointer(const std::string& path) try {
  std::string name = read_file(path);
  if (name.ends_with('\n')) name.pop_back();
  return step_of(name) >= 0 ? name : "";
} catch (const FileError&) {
  return "";
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
constexpr int kFormatVersion = 1;
constexpr std::pair<const char*, NamedTensors CheckpointContents::*> kTensors[] = {
    {"model.safetensors", &CheckpointContents::model},
    {"optimizer.safetensors", &CheckpointContents::optimizer},
    {"norm_state.safetensors", &CheckpointContents::norm_state}};
constexpr const char* kState = "state.json";
constexpr const char* kManifest = "manifest.json";
constexpr const char* kPart = ".part-";
constexpr const char* kRemoved = ".removed-";

void make_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0777) != 0) throw FileError(path, "cannot be created", errno);
  const std::string parent = std::filesystem::path(path).parent_path();
  sync_directory(parent.empty() ? "." : parent);
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Removes files that a killed process left behind.
void remove_remains(const std::string& checkpoints) {
  for (const auto& path : paths_in(checkpoints, /*optional=*/true))
    for (const char* prefix : {kPart, kRemoved, "LATEST.", "BEST."})
      if (path.filename().string().starts_with(prefix)) remove_tree(path);
}

// Returns the paths of all files relative to the directory.
std::vector<std::string> files_below(const std::string& directory) try {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (!entry.is_directory()) names.push_back(fs::relative(entry.path(), directory));
  return names;
} catch (const std::filesystem::filesystem_error& e) {
  throw FileError(directory, "cannot be listed", e.code().value());
}

void write_parts(const std::string& directory, const CheckpointContents& c, const SaveOptions& options) {
  const std::string base = directory + "/";
  for (const auto& [file, tensors] : kTensors) write_safetensors(base + file, c.*tensors);
  const json state{{"step", c.step}, {"config_hash", c.config_hash}, {"log_offset", c.log_offset}, {"state", c.state}};
  write_file_atomically(base + kState, state.dump(2) + "\n");
  if (options.companions) options.companions(directory);
  json files = json::object();
  for (const std::string& name : files_below(directory))
    files[name] = {{"bytes", InputFile(base + name).size()}, {"sha256", sha256_of_file(base + name)}};
  const json manifest{{"format_version", kFormatVersion}, {"step", c.step}, {"files", std::move(files)}};
  write_file_atomically(base + kManifest, manifest.dump(2) + "\n");
}

// Renames the finished directory `part` to `path`. If `path` exists, exchanges the two directories.
void put_in_place(const std::string& part, const std::string& path) {
  if (rename(part.c_str(), path.c_str()) == 0) return;
  if (errno == ENOTEMPTY || errno == EEXIST) {
    if (renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
    // If the file system cannot swap two names, `path` is missing for a moment.
    if (errno == EINVAL || errno == ENOSYS) {
      const std::string aside = part + ".old";
      if (rename(path.c_str(), aside.c_str()) == 0 && rename(part.c_str(), path.c_str()) == 0 &&
          rename(aside.c_str(), part.c_str()) == 0)
        return;
    }
  }
  throw FileError(path, "cannot be replaced by " + part, errno);
}

// Makes BEST name this step, even if it names another step after a rollback or a kill.
void point_to_best(const std::string& checkpoints, std::int64_t step) {
  const std::string pointer = checkpoints + "/BEST", name = step_name(step);
  if (step < 0 || !file_exists(checkpoints + "/" + name))
    remove_tree(pointer);
  else if (read_pointer(pointer) != name)
    write_file_atomically(pointer, name + "\n");
}

// Renames a checkpoint before removing it, so that its old name never refers to a half-removed checkpoint.
void remove_old(const std::string& checkpoints, std::int64_t newest, std::int64_t keep) {
  std::vector<std::int64_t> steps = steps_in(checkpoints);
  std::erase_if(steps, [&](std::int64_t step) { return step > newest; });  // left from before a rollback
  const std::string best = read_pointer(checkpoints + "/BEST");
  for (std::size_t i = 0; i + std::size_t(keep) < steps.size(); ++i) {
    const std::string name = step_name(steps[i]);
    const std::string removed = checkpoints + "/" + kRemoved + name;
    if (name == best || rename((checkpoints + "/" + name).c_str(), removed.c_str()) != 0) continue;
    remove_tree(removed);
  }
}

void verify_file(const std::string& file, const json& entry, const std::string& manifest_path) {
  const auto want_bytes = member<std::uint64_t>(entry, "bytes", manifest_path), bytes = InputFile(file).size();
  if (bytes != want_bytes)
    throw FileError(file, fmt::format("must have {} bytes according to the manifest, got {}", want_bytes, bytes));
  const auto want = member<std::string>(entry, "sha256", manifest_path), digest = sha256_of_file(file);
  if (digest != want)
    throw FileError(file, fmt::format("must have SHA-256 {} according to the manifest, got {}", want, digest));
}

void verify(const std::string& path, const std::vector<std::string>& without) {
  const std::string manifest_path = path + "/" + kManifest;
  const json manifest = read_json(manifest_path);
  const int version = member<int>(manifest, "format_version", manifest_path);
  if (version != kFormatVersion)
    throw FileError(manifest_path, fmt::format("format_version must be {}, got {}", kFormatVersion, version));
  const json files = member<json>(manifest, "files", manifest_path);
  for (const auto& [file, tensors] : kTensors) (void)member<json>(files, file, manifest_path);
  (void)member<json>(files, kState, manifest_path);
  for (const auto& [name, entry] : files.items())
    if (!contains(without, name)) verify_file(path + "/" + name, entry, manifest_path);
}

// Returns LATEST, then older checkpoints, newest first. Those newer than LATEST, from before a rollback, come last.
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

void save_checkpoint(const std::string& checkpoints, const CheckpointContents& contents, const SaveOptions& options) {
  FOLDGRAD_CHECK(contents.step >= 0, "checkpoint: step must be at least 0, got {}", contents.step);
  FOLDGRAD_CHECK(options.keep >= 1, "checkpoint: keep must be at least 1, got {}", options.keep);
  std::error_code ignored;
  if (!std::filesystem::is_directory(checkpoints, ignored)) make_directory(checkpoints);
  remove_remains(checkpoints);
  const std::string name = step_name(contents.step);
  const std::string part = checkpoints + "/" + kPart + name;
  make_directory(part);
  try {
    write_parts(part, contents, options);
    put_in_place(part, checkpoints + "/" + name);
  } catch (...) {
    remove_tree(part);
    throw;
  }
  sync_directory(checkpoints);
  write_file_atomically(checkpoints + "/LATEST", name + "\n");
  point_to_best(checkpoints, options.best);
  remove_tree(part);  // now contains the old checkpoint
  remove_old(checkpoints, contents.step, options.keep);
}

void verify_checkpoint(const std::string& path, const std::vector<std::string>& without) try {
  if (file_exists(path + "/" + kManifest)) verify(path, without);
} catch (const FileError& e) {
  throw CheckpointError(e.what());
}

CheckpointContents load_checkpoint(const std::string& path) try {
  verify(path, {});
  const std::string base = path + "/", state_path = base + kState;
  CheckpointContents c;
  for (const auto& [file, tensors] : kTensors) c.*tensors = read_safetensors(base + file).tensors;
  const json state = read_json(state_path);
  c.step = member<std::int64_t>(state, "step", state_path);
  c.config_hash = member<std::string>(state, "config_hash", state_path);
  c.log_offset = member<std::uint64_t>(state, "log_offset", state_path);
  c.state = member<json>(state, "state", state_path);
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
