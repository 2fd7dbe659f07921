// Reads text files of any size line by line.
#pragma once
#include <functional>
#include <string>

namespace foldgrad {

// Calls `take` with each line, without its "\n"; `ended` is false if the last line has none. Reads the file in parts.
// Throws FileError for a line longer than 256 MiB, and for a zero byte, which text files do not contain; so a sparse
// file is refused at once, whatever its size.
void read_lines_of(const std::string& path, const std::function<void(std::string& line, bool ended)>& take);

}  // namespace foldgrad
