// Standard input, output and error, which may be closed, full or broken.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "train/system/printable.h"

namespace foldgrad {

// Opens those of descriptors 0, 1 and 2 that the caller left closed, so that no file opened later becomes one of them.
// Reading and writing them still fails: nothing that belongs there is lost unnoticed.
void open_standard_streams();

// Reads the next line without its end. Returns false after the last. Throws FileError when stdin cannot be read.
bool read_line_of_stdin(std::string& line);

// Throws FileError unless all that was printed has been written.
void flush_stdout();
// Reports that stdout cannot be written, unless its reader has gone, and returns the exit code for that.
int report_stdout_error(int error);

// Returns `exit_code` at the end of main(), or that of report_stdout_error() when it is 0 and what was printed cannot
// be written.
int finish_stdout(int exit_code);

// Writes a message to stderr; failing to must not end the work that it reports on. Text with values is made
// printable(), since these come from anywhere; text alone stays as it is.
void say(std::string_view text) noexcept;
// Begins each message from now on with this: the name of one process of several.
void begin_lines_with(std::string name);
template <class... T>
void say(fmt::format_string<T...> format, T&&... values) {
  say(std::string_view(printable(fmt::format(format, std::forward<T>(values)...))));
}

}  // namespace foldgrad
