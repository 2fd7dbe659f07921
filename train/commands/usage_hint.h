// What is wrong with a command line, in terms of what was typed.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

// Of the first argument that looks like a command or an option and is none, with the nearest that exists. Empty when
// there is no such argument. `arguments`: without the program's name.
std::string usage_hint(const CLI::App& program, const std::vector<std::string>& arguments);

// `help COMMAND` is `COMMAND --help`, and `help` is `--help`.
std::vector<std::string> with_help_as_option(std::vector<std::string> arguments);

}  // namespace foldgrad
