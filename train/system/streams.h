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
// Reads and writes still fail, so that no loss goes unnoticed.
void open_standard_streams();

// Reads the next line without its end. Returns false after the last. Throws FileError if stdin cannot be read.
bool read_line_of_stdin(std::string& line);

// Throws FileError unless all output has been written.
void flush_stdout();
// Reports that stdout cannot be written, unless its reader has gone, and returns the exit code for that.
int report_stdout_error(int error);

// Call at the end of main(). Returns `exit_code`, or, if that is 0 and output cannot be written,
// report_stdout_error()'s exit code.
int finish_stdout(int exit_code);

// Writes a message to stderr, or gives it to the sink; if that fails, the work continues. Text with values becomes
// printable(), since values may come from anywhere; text without values stays unchanged.
void say(std::string_view text) noexcept;
// Sends all later messages to `sink`, which must not throw. If `sink` is null, they go to stderr.
void set_message_sink(std::function<void(std::string_view)> sink);
bool has_message_sink();
// Begins all later messages with `name`, which tells this process from the others.
void begin_lines_with(std::string name);
template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  say(std::string_view(printable(fmt::format(format, std::forward<T>(values)...))));
}

}  // namespace foldgrad
