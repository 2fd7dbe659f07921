#include "train/system/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "engine/files/file.h"
#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

std::string name_of_process;
std::function<void(std::string_view)> message_sink;

constexpr const char *kStdout = "stdout", *kNotWritten = "cannot be written";

// Closes a copy of the descriptor, since some file systems report failed writes only when a file is closed.
bool closes(int descriptor) {
  const int copy = dup(descriptor);
  return copy < 0 || close(copy) == 0;
}

}  // namespace

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // Opens the stream in the opposite direction, so that reads and writes fail. open() takes the lowest free number.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) std::_Exit(kExitData);
  }
}

bool read_line_of_stdin(std::string& line) {
  static char* buffer = nullptr;
  static std::size_t capacity = 0;
  const ssize_t length = getline(&buffer, &capacity, stdin);
  const int error = errno;
  if (std::ferror(stdin)) throw FileError("stdin", "cannot be read", error);
  if (length < 0) return false;
  line.assign(buffer, std::size_t(length));
  if (line.back() == '\n') line.pop_back();
  return true;
}

void flush_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw FileError(kStdout, kNotWritten, errno);
}

int report_stdout_error(int error) {
  if (error == EPIPE) return kExitBrokenPipe;
  say("error: {}\n", FileError(kStdout, kNotWritten, error).what());
  return kExitData;
}

int finish_stdout(int exit_code) {
  const bool failed = std::ferror(stdout);
  if (std::fflush(stdout) == 0 && !failed && closes(STDOUT_FILENO)) return exit_code;
  const int error = errno;
  // guarded() has already reported the error.
  if (failed && (exit_code == kExitData || exit_code == kExitBrokenPipe)) return exit_code;
  const int of_stdout = report_stdout_error(error);
  return exit_code == kExitOk ? of_stdout : exit_code;
}

void say(std::string_view text) noexcept {
  if (message_sink) return message_sink(text);
  std::fwrite(name_of_process.data(), 1, name_of_process.size(), stderr);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void set_message_sink(std::function<void(std::string_view)> sink) { message_sink = std::move(sink); }

bool has_message_sink() { return static_cast<bool>(message_sink); }

void begin_lines_with(std::string name) { name_of_process = std::move(name); }

}  // namespace foldgrad
