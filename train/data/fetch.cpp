#include "train/data/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/files/atomic_file.h"
#include "train/system/digest.h"
#include "train/system/streams.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

Download in_archives(const Download& archive, const std::string& root) {
  return {archive.urls, archive.sha256, root + "/archives/" + archive.path, archive.most_bytes};
}

void take_archives(const DataSet& set, const std::vector<std::string>& files, const std::string& root) {
  for (const std::string& file : files) {
    const std::string digest = sha256_of_file(file);
    const auto found =
        std::ranges::find_if(set.archives, [&](const Download& archive) { return archive.sha256 == digest; });
    if (found == set.archives.end())
      throw FileError(file, fmt::format("has SHA-256 {}, which no archive of {} has", digest, set.name));
    take_file(file, in_archives(*found, root));
  }
}

void require_digests(const DataSet& set, const std::string& directory) {
  for (const auto& [name, digest] : set.digests) {
    const std::string path = directory + "/" + name;
    if (const std::string got = sha256_of_file(path); got != digest)
      throw FileError(path, fmt::format("must have SHA-256 {}, got {}", digest, got));
  }
}

}  // namespace

UnpackedArchives::UnpackedArchives(const DataSet& set, const std::vector<std::string>& files, const std::string& root)
    : UnpackedArchives(root) {
  take_archives(set, files, root);
  for (const Download& archive : set.archives) {
    say("{}\n", archive.path);
    const Download wanted = in_archives(archive, root);
    download(wanted);
    unpack(wanted.path, path_);
  }
}

UnpackedArchives::~UnpackedArchives() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  for (const std::string& directory : {root_ + "/archives", root_}) fs::remove(directory, ignored);  // if empty
}

bool has_images(const DataSet& set, const std::string& root) {
  bool all = true;
  for (const auto& [name, digest] : set.digests) {
    const std::string path = root + "/" + name;
    const bool there = file_exists(path);
    all = all && there;
    if (there && sha256_of_file(path) != digest)
      throw FileError(path, fmt::format("is there already, and is not that of {}: remove it, or name another "
                                        "--data-dir",
                                        set.name));
  }
  return all;
}

void fetch_images(const DataSet& set, const std::vector<std::string>& files, const std::string& root) {
  if (has_images(set, root)) return;
  const UnpackedArchives unpacked(set, files, root);
  const std::string from = unpacked.path() + "/" + set.directory;
  require_digests(set, from);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string to = root + "/" + entry.path().filename().string();
    std::error_code error;
    fs::rename(entry.path(), to, error);
    if (error) throw FileError(to, "cannot be written", error.value());
  }
  sync_directory(root);
}

}  // namespace foldgrad
