#include "engine/files/file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace foldgrad {

FileError::FileError(const std::string& path, const std::string& what)
    : std::runtime_error((path.empty() ? "\"\"" : path) + ": " + what), path_(path) {}

FileError::FileError(const std::string& path, const std::string& what, int error)
    : FileError(path, what + ": " + std::generic_category().message(error)) {
  error_ = error;
}

// Without O_NONBLOCK, opening a FIFO would wait for a writer before we could reject it.
InputFile::InputFile(std::string path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) throw FileError(path_, "cannot be opened", errno);
  struct stat status;
  const bool known = fstat(descriptor_, &status) == 0;
  const int error = errno;
  // Rejects files such as /proc/version, which have content but a size of 0.
  char first;
  if (known && S_ISREG(status.st_mode) && (status.st_size > 0 || pread(descriptor_, &first, 1, 0) == 0)) {
    size_ = std::uint64_t(status.st_size);
    return;
  }
  close(descriptor_);
  if (known) throw FileError(path_, "is not a regular file");
  throw FileError(path_, "cannot be examined", error);
}

InputFile::~InputFile() { close(descriptor_); }

void InputFile::read(std::uint64_t offset, void* target, std::size_t bytes) const {
  char* next = static_cast<char*>(target);
  while (bytes > 0) {
    const ssize_t count = pread(descriptor_, next, bytes, off_t(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw FileError(path_, fmt::format("byte {} cannot be read", offset), errno);
    if (count == 0)
      throw FileError(path_, fmt::format("expected {} bytes starting at byte {}, got none", bytes, offset));
    next += count;
    offset += std::uint64_t(count);
    bytes -= std::size_t(count);
  }
}

std::string read_file(const std::string& path) {
  // The limit is larger than any file that we read as a whole, but it bounds the memory that a sparse file, or the
  // wrong file, would use.
  constexpr std::uint64_t kMostBytes = std::uint64_t(1) << 28;
  const InputFile file(path);
  if (file.size() > kMostBytes)
    throw FileError(path, fmt::format("must have at most {} bytes, got {}", kMostBytes, file.size()));
  std::string content(file.size(), '\0');
  file.read(0, content.data(), content.size());
  return content;
}

void read_lines_of(const std::string& path, const std::function<void(std::string& line, bool ended)>& take) {
  constexpr std::uint64_t kPart = 1 << 20, kLongestLine = 1 << 28;
  const InputFile file(path);
  std::string part, line;
  std::uint64_t number = 1;
  for (std::uint64_t offset = 0; offset < file.size(); offset += part.size()) {
    part.resize(std::min(kPart, file.size() - offset));
    file.read(offset, part.data(), part.size());
    for (std::size_t begin = 0; begin < part.size();) {
      const std::size_t end = std::min(part.find('\n', begin), part.size());
      if (const void* zero = std::memchr(&part[begin], 0, end - begin))
        throw FileError(path,
                        fmt::format("line {} must be text, got a zero byte at byte {} of the line", number,
                                    line.size() + std::size_t(static_cast<const char*>(zero) - &part[begin]) + 1));
      line.append(part, begin, end - begin);
      if (line.size() > kLongestLine)
        throw FileError(path, fmt::format("line {} must have at most {} bytes", number, kLongestLine));
      if (end < part.size()) take(line, true), line.clear(), ++number;
      begin = end + 1;
    }
  }
  if (!line.empty()) take(line, false);
}

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::vector<std::filesystem::path> paths_in(const std::string& directory, bool optional) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; it != end; it.increment(error))
    paths.push_back(it->path());
  const bool absent = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !(optional && absent)) throw FileError(directory, "cannot be read", error.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace foldgrad
