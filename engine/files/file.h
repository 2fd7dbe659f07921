// Reads files: whole, in part, or line by line. Error messages give the file and the operating system's error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace foldgrad {

// Thrown if a file cannot be read or written, or if its content violates its format: "PATH: the fault".
class FileError : public std::runtime_error {
 public:
  FileError(const std::string& path, const std::string& what);
  // `error` is an errno; its text is appended to the message: "PATH: cannot be opened: No such file or directory".
  FileError(const std::string& path, const std::string& what, int error);

  const std::string& path() const { return path_; }
  int error() const { return error_; }  // an errno such as ENOSPC or EIO; 0 if the content of the file is invalid

 private:
  std::string path_;
  int error_ = 0;
};

// A regular file, open for reading. Throws FileError.
class InputFile {
 public:
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // the size at the time when the file was opened
  void read(std::uint64_t offset, void* target, std::size_t bytes) const;

 private:
  std::string path_;
  int descriptor_;
  std::uint64_t size_;
};

// Returns the whole content. Throws FileError.
std::string read_file(const std::string& path);

// Calls `take` with each line, without its "\n"; `ended` is false for a last line that has no "\n". Reads the file in
// parts. Throws FileError for a line longer than 256 MiB, and for a zero byte, which text files do not contain. So a
// sparse file is rejected at once, whatever its size.
void read_lines_of(const std::string& path, const std::function<void(std::string& line, bool ended)>& take);

// Returns true if the path exists, even as a broken symbolic link. Returns false if the system cannot tell.
bool file_exists(const std::string& path);

// Returns the sorted paths of a directory's entries. If the directory does not exist and `optional` is true, returns no
// paths. Throws FileError if the directory cannot be read.
std::vector<std::filesystem::path> paths_in(const std::string& directory, bool optional = false);

}  // namespace foldgrad
