#include "train/data/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>

#include "engine/files/atomic_file.h"
#include "train/system/child_process.h"
#include "train/system/digest.h"
#include "train/system/streams.h"
#include "train/system/unicode.h"

namespace foldgrad {
namespace {

namespace fs = std::filesystem;

bool has_digest(const std::string& path, const std::string& sha256) {
  return fs::is_regular_file(path) && sha256_of_file(path) == sha256;
}

void rename_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) throw FileError(to, "cannot be written", error.value());
}

// If `part` is the complete file, renames it and returns "". Otherwise removes it, since its download cannot be
// resumed, and returns the reason.
std::string finish(const std::string& part, const Download& wanted) {
  if (const std::string got = sha256_of_file(part); got != wanted.sha256) {
    fs::remove(part);
    return "has SHA-256 " + got;
  }
  rename_file(part, wanted.path);
  sync_directory(fs::path(wanted.path).parent_path());
  return "";
}

// Appends the missing rest of the file to `part`. Returns the reason for a failure, otherwise "".
std::string transfer(const std::string& url, const std::string& part) {
  const std::string messages = part + ".messages";
  std::vector<std::string> command = split_words(
      "curl --disable "  // must come first to ignore ~/.curlrc
      "--silent --show-error --fail --location --globoff --proto =http,https --connect-timeout 20 "
      "--speed-limit 1000 --speed-time 60 --max-filesize 10G --continue-at -");
  command.insert(command.end(), {"--output", part, "--stderr", messages, "--url", url});
  const ChildResult curl = run_child(command, /*quiet=*/true);
  if (curl.error == ENOENT) throw FileError("curl", "not found; install curl (apt-get install curl)");
  if (curl.error != 0) throw FileError("curl", "cannot be started", curl.error);
  std::string text;  // "curl: (7) Failed to connect"; warnings may precede it
  std::ifstream lines(messages);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("curl: (")) text = line;
  fs::remove(messages);
  if (curl.succeeded()) return "";
  // Removes a part that no later call can resume. HTTP status 416 means that the server has nothing beyond the part.
  constexpr int kCannotResume = 33;
  const bool refused = curl.status == kCannotResume || text.ends_with(" 416");
  if (refused || (fs::exists(part) && fs::file_size(part) == 0)) fs::remove(part);
  const std::size_t number = text.find(") ");
  return number == text.npos ? fmt::format("curl ended with {}", curl.status) : text.substr(number + 2);
}

// Returns "" on success, otherwise the reason. An earlier part may belong to another file, or the server may be unable
// to resume it. In both cases the part is removed, and the whole file is fetched again.
std::string fetch(const std::string& url, const std::string& part, const Download& wanted) {
  const bool had_part = fs::exists(part);
  std::string failure = transfer(url, part);
  if (failure.empty()) failure = finish(part, wanted);
  return failure.empty() || !had_part || fs::exists(part) ? failure : fetch(url, part, wanted);
}

// Creates `directory` and unpacks *.tar.gz into it.
void unpack(const std::string& archive, const std::string& directory) {
  make_directories(directory);
  // The path is absolute, since GNU tar would take the "a" of "a:b/c.tar.gz" for the name of a host.
  const ChildResult tar = run_child({"tar", "-xzf", fs::absolute(archive), "-C", directory}, /*quiet=*/false);
  if (tar.error != 0) throw FileError(archive, "cannot be unpacked, since tar cannot be started", tar.error);
  if (!tar.succeeded()) throw FileError(archive, "cannot be unpacked by tar");
}

Download in_archives(const Download& archive, const std::string& root) {
  return {archive.urls, archive.sha256, root + "/archives/" + archive.path};
}

void take_archives(const DataSet& set, const std::vector<std::string>& files, const std::string& root) {
  for (const std::string& file : files) {
    const std::string digest = sha256_of_file(file);
    const auto found = std::ranges::find(set.archives, digest, &Download::sha256);
    if (found == set.archives.end())
      throw FileError(file,
                      fmt::format("has SHA-256 {}, which is not the digest of an archive of {}", digest, set.name));
    take_file(file, in_archives(*found, root));
  }
}

}  // namespace

void download(const Download& wanted) {
  if (has_digest(wanted.path, wanted.sha256)) return;
  make_directories(fs::path(wanted.path).parent_path());
  const std::string part = wanted.path + ".part";
  // An earlier process may have been killed after it had received the last byte. No server can resume there.
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
  throw FileError(wanted.path, fmt::format("could not be fetched:{}\n  The file must have SHA-256 {}. If you already "
                                           "have the file, pass --from-file FILE, or copy it to the path above.",
                                           failures, wanted.sha256));
}

void take_file(const std::string& file, const Download& wanted) {
  require_digest(file, wanted.sha256);
  make_directories(fs::path(wanted.path).parent_path());
  const std::string part = wanted.path + ".part";
  std::error_code error;
  fs::copy_file(file, part, fs::copy_options::overwrite_existing, error);
  if (error) throw FileError(part, "cannot be written", error.value());
  if (const std::string failure = finish(part, wanted); !failure.empty()) throw FileError(part, failure);
}

void with_unpacked(const DataSet& set, const std::vector<std::string>& files, const std::string& root,
                   const std::function<void(const std::string&)>& take) {
  const std::string path = root + "/unpacked";
  const std::shared_ptr<void> when_done(nullptr, [&](void*) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
    // Removes only empty directories.
    for (const std::string& directory : {root + "/archives", root}) fs::remove(directory, ignored);
  });
  take_archives(set, files, root);
  for (const Download& archive : set.archives) {
    say("{}\n", archive.path);
    const Download wanted = in_archives(archive, root);
    download(wanted);
    unpack(wanted.path, path);
  }
  take(path);
}

void fetch_images(const DataSet& set, const std::vector<std::string>& files, const std::string& root) {
  if (has_images(set, root)) return;
  with_unpacked(set, files, root, [&](const std::string& path) {
    const std::string from = path + "/" + set.directory;
    for (const auto& [name, digest] : set.digests) require_digest(from + "/" + name, digest);
    for (const auto& entry : fs::directory_iterator(from))
      rename_file(entry.path(), root + "/" + entry.path().filename().string());
    sync_directory(root);
  });
}

bool has_images(const DataSet& set, const std::string& root) {
  bool all = true;
  for (const auto& [name, digest] : set.digests) {
    const std::string path = root + "/" + name;
    const bool there = file_exists(path);
    all = all && there;
    if (there && sha256_of_file(path) != digest)
      throw FileError(
          path,
          fmt::format("already exists but does not belong to {}: remove it, or choose another --data-dir", set.name));
  }
  return all;
}

}  // namespace foldgrad
