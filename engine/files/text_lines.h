// Text line by line, from files of any size.
#pragma once
#include <functional>
#include <string>

namespace foldgrad {

// Calls `take` with each line of a text, without its "\n"; `ended` is false for a last one that has none. Reads the
// file in parts. Throws FileError where a line is longer than 256 MiB, or has a zero byte, which text does not have: a
// file of holes is refused at once, however long it claims to be.
void read_lines_of(const std::string& path, const std::function<void(std::string& line, bool ended)>& take);

}  // namespace foldgrad
