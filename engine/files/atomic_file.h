// Files that appear whole or not at all, whenever the process or the machine stops.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/files/file.h"

namespace foldgrad {

// A new file beside `path`, which commit() brings to the disk and renames to `path`. Until then a file that was there
// stays as it was. Without commit(), the new file is removed. A symbolic link at `path` is replaced, not followed.
// Throws FileError.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
  bool exists_ = false;  // temporary_, on the disk
};

// Brings a directory to the disk: names that were added, renamed or removed in it. Throws FileError.
void sync_directory(const std::string& path);

void write_file_atomically(const std::string& path, std::string_view content);

// Makes a directory, with all that are missing above it. Throws FileError.
void make_directories(const std::string& path);

}  // namespace foldgrad
