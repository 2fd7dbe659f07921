#include "train/data/download.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/files/atomic_file.h"
#include "train/system/child_process.h"
#include "train/system/digest.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

bool has_digest(const std::string& path, const std::string& sha256) {
  return fs::is_regular_file(path) && sha256_of_file(path) == sha256;
}

void make_parent(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty()) make_directories(parent);
}

// Returns "" when `part` is the file; otherwise it is removed, since nothing can be made of it.
std::string finish(const std::string& part, const Download& wanted) {
  if (const std::string got = sha256_of_file(part); got != wanted.sha256) {
    fs::remove(part);
    return "has SHA-256 " + got;
  }
  std::error_code error;
  fs::rename(part, wanted.path, error);
  if (error) throw FileError(wanted.path, "cannot be written", error.value());
  sync_directory(fs::absolute(wanted.path).parent_path());
  return "";
}

// Returns "" when it worked. A part from before may be of another file, or of one that the server cannot resume: where
// it had to be removed, the file is fetched once more, without it.
std::string fetch(const std::string& url, const std::string& part, const Download& wanted) {
  const bool had_part = fs::exists(part);
  std::string failure = transfer(url, part, wanted.most_bytes);
  if (failure.empty()) failure = finish(part, wanted);
  return failure.empty() || !had_part || fs::exists(part) ? failure : fetch(url, part, wanted);
}

}  // namespace

void download(const Download& wanted) {
  if (has_digest(wanted.path, wanted.sha256)) return;
  make_parent(wanted.path);
  const std::string part = wanted.path + ".part";
  // The process may have been killed after the last byte, and no server can resume from there.
  if (has_digest(part, wanted.sha256)) {
    finish(part, wanted);
    return;
  }
  std::string failures;
  for (const std::string& url : wanted.urls) {
    const std::string failure = fetch(url, part, wanted);
    if (failure.empty()) return;
    failures += fmt::format("\n  {}: {}", url, failure);
  }
  throw FileError(
      wanted.path,
      fmt::format("could not be fetched:{}\n  The file must have SHA-256 {}. If you have it from elsewhere, "
                  "give --from-file FILE, or put it there.",
                  failures, wanted.sha256));
}

void take_file(const std::string& file, const Download& wanted) {
  if (const std::string got = sha256_of_file(file); got != wanted.sha256)
    throw FileError(file, fmt::format("must have SHA-256 {}, got {}", wanted.sha256, got));
  make_parent(wanted.path);
  const std::string part = wanted.path + ".part";
  std::error_code error;
  fs::copy_file(file, part, fs::copy_options::overwrite_existing, error);
  if (error) throw FileError(part, "cannot be written", error.value());
  if (const std::string failure = finish(part, wanted); !failure.empty()) throw FileError(part, failure);
}

void unpack(const std::string& archive, const std::string& directory) {
  make_directories(directory);
  const ChildResult tar = run_child({"tar", "-xzf", archive, "-C", directory}, /*quiet=*/false);
  if (tar.error != 0) throw FileError(archive, "cannot be unpacked, since tar cannot be started", tar.error);
  if (!tar.succeeded()) throw FileError(archive, "cannot be unpacked by tar");
}

}  // namespace foldgrad
