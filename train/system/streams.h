// Standard input, output and error, which may be closed, full or broken.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "train/system/printable.h"

namespace foldgrad {

// Opens descriptors 0, 1 and 2 if the caller left them closed, so that no file opened later gets one of these numbers.
// Reading and writing them still fails, so that no loss goes unnoticed.
void open_standard_streams();

// Reads the next line, without its newline. Returns false after the last line. Throws FileError if stdin cannot be
// read.
bool read_line_of_stdin(std::string& line);

// Throws FileError unless all output has been written.
void flush_stdout();
// Returns the exit code for output that cannot be written, and reports the error unless the reader is gone.
int report_stdout_error(int error);

// Flushes stdout; call it at the end of main(). Returns `exit_code` or, if that is 0 and output cannot be written, the
// exit code from report_stdout_error().
int finish_stdout(int exit_code);

// Writes a message to stderr or passes it to the sink; ignores failures. A message with values is made printable(),
// since values may come from anywhere; one without values stays unchanged.
void say(std::string_view text) noexcept;
// Sends all later messages to `sink`, which must not throw. If `sink` is null, they go to stderr.
void set_message_sink(std::function<void(std::string_view)> sink);
bool has_message_sink();
// Begins all later messages with `name`, which distinguishes this process from the other processes.
void begin_lines_with(std::string name);
template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  say(std::string_view(printable(fmt::format(format, std::forward<T>(values)...))));
}

}  // namespace foldgrad
