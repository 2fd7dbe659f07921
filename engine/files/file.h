// Reading files whole or in part, with errors that name the file and the machine's reason.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace foldgrad {

// A file that cannot be read or written, or whose content is not what its format demands: "PATH: what is wrong".
class FileError : public std::runtime_error {
 public:
  FileError(const std::string& path, const std::string& what);
  // `error` is an errno; its text ends the message: "PATH: cannot be opened: No such file or directory".
  FileError(const std::string& path, const std::string& what, int error);

  int error() const { return error_; }  // ENOSPC, EIO, ...; 0 when the content is at fault

 private:
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
  std::uint64_t size() const { return size_; }  // when it was opened
  void read(std::uint64_t offset, void* target, std::size_t bytes) const;

 private:
  std::string path_;
  int descriptor_;
  std::uint64_t size_;
};

// The whole content. Throws FileError.
std::string read_file(const std::string& path);

}  // namespace foldgrad
