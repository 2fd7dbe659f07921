// Files that appear completely or not at all, even if the process or the machine stops.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/files/file.h"

namespace foldgrad {

// A new file next to `path`. commit() syncs it and renames it to `path`; until then an existing file stays unchanged.
// Without commit(), the destructor removes the new file. A symbolic link at `path` is replaced, not followed. Throws
// FileError.
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
  bool exists_ = false;  // true while temporary_ exists
};

// Syncs a directory, so that creations, renames and removals in it survive a crash. Throws FileError.
void sync_directory(const std::string& path);

void write_file_atomically(const std::string& path, std::string_view content);

// Creates a directory and its missing parents. Throws FileError.
void make_directories(const std::string& path);

}  // namespace foldgrad
