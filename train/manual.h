// The manual page of the program.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace foldgrad {

// Returns the page in man's format, with the help of the program and of every command.
std::string manual(const CLI::App& program, const std::string& version);

}  // namespace foldgrad
