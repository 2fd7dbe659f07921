#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "engine/files/atomic_file.h"
#include "engine/files/safetensors.h"
#include "train/checkpoints/checkpoint.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

using namespace checkpoint_files;
using nlohmann::json;
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

// Removes the files that a killed process left.
void remove_remains(const std::string& checkpoints) {
  for (const auto& path : paths_in(checkpoints, /*optional=*/true))
    for (const char* prefix : {kPart, kRemoved, "LATEST.", "BEST."})
      if (path.filename().string().starts_with(prefix)) remove_tree(path);
}

// By their paths relative to the directory.
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
  write_safetensors(base + kParts[0], c.model);
  write_safetensors(base + kParts[1], c.optimizer);
  write_safetensors(base + kParts[2], c.norm_state);
  const json state{{"step", c.step}, {"config_hash", c.config_hash}, {"log_offset", c.log_offset}, {"state", c.state}};
  write_file_atomically(base + kParts[3], state.dump(2) + "\n");
  if (options.companions) options.companions(directory);
  json files = json::object();
  for (const std::string& name : files_below(directory))
    files[name] = {{"bytes", InputFile(base + name).size()}, {"sha256", sha256_of_file(base + name)}};
  const json manifest{{"format_version", kFormatVersion}, {"step", c.step}, {"files", std::move(files)}};
  write_file_atomically(base + kManifest, manifest.dump(2) + "\n");
}

// Moves the finished directory to its place; a directory that had this name is then under the other one.
void put_in_place(const std::string& part, const std::string& path) {
  if (rename(part.c_str(), path.c_str()) == 0) return;
  if (errno == ENOTEMPTY || errno == EEXIST) {
    if (renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
    if (errno == EINVAL || errno == ENOSYS) {  // the file system cannot exchange: for a moment neither is there
      const std::string aside = part + ".old";
      if (rename(path.c_str(), aside.c_str()) == 0 && rename(part.c_str(), path.c_str()) == 0 &&
          rename(aside.c_str(), part.c_str()) == 0)
        return;
    }
  }
  throw FileError(path, "cannot be replaced by " + part, errno);
}

// Renamed first: a checkpoint that is half removed must not be found under its name.
void remove_old(const std::string& checkpoints, std::int64_t newest, std::int64_t keep) {
  std::vector<std::int64_t> steps = steps_in(checkpoints);
  std::erase_if(steps, [&](std::int64_t step) { return step > newest; });  // from before a roll-back
  const std::string best = read_pointer(checkpoints + "/BEST");
  for (std::size_t i = 0; i + std::size_t(keep) < steps.size(); ++i) {
    const std::string name = step_name(steps[i]);
    const std::string removed = checkpoints + "/" + kRemoved + name;
    if (name == best || rename((checkpoints + "/" + name).c_str(), removed.c_str()) != 0) continue;
    remove_tree(removed);
  }
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
  if (options.best) write_file_atomically(checkpoints + "/BEST", name + "\n");
  remove_tree(part);  // the old checkpoint, exchanged for the new one
  remove_old(checkpoints, contents.step, options.keep);
}

}  // namespace foldgrad
