// Messages about command lines that cannot be understood.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

// Returns a message about the first option or command that `program` did not understand when it parsed a command line,
// with the nearest that exists; empty when it understood all of them.
std::string usage_hint(const CLI::App& program);

// `help COMMAND` is `COMMAND --help`, and `help` is `--help`.
std::vector<std::string> with_help_as_option(std::vector<std::string> arguments);

}  // namespace foldgrad
