// Files of text, line by line.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

// The lines of a file without their ends ("\n" or "\r\n") and without a byte order mark at its beginning. Throws
// FileError, naming the file, when it cannot be read, and naming the line too when that is not UTF-8.
std::vector<std::string> read_lines(const std::string& path);

}  // namespace foldgrad
