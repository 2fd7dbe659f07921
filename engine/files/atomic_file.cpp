#include "engine/files/atomic_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace foldgrad {

void sync_directory(const std::string& path) {
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // File systems that cannot sync a directory return EINVAL.
  const bool synced = directory >= 0 && (fsync(directory) == 0 || errno == EINVAL);
  const int error = errno;
  if (directory >= 0) close(directory);
  if (!synced) throw FileError(path, "the directory cannot be synced to disk", error);
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat status;
  // Renaming over a device or a pipe would destroy it.
  if (stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) throw FileError(path_, "is not a regular file");
  static std::atomic<unsigned> count = 0;
  do {  // a killed process with the same id may have left a file with this name
    temporary_ = fmt::format("{}.{}-{}.part", path_, getpid(), count++);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) throw FileError(path_, "cannot be created", errno);
  exists_ = true;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (exists_) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor_, next, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError(temporary_, "cannot be written", errno);
    next += count;
    bytes -= std::size_t(count);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) throw FileError(temporary_, "cannot be synced to disk", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) throw FileError(temporary_, "cannot be closed", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw FileError(path_, "cannot be replaced by " + temporary_, errno);
  exists_ = false;
  // A rename is on the disk only after its directory is synced.
  const std::string parent = std::filesystem::path(path_).parent_path();
  sync_directory(parent.empty() ? "." : parent);
}

void write_file_atomically(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw FileError(path, "cannot be created", error.value());
}

}  // namespace foldgrad
