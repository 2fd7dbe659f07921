// Completion of the program's command lines, for the scripts of the shells (scripts/completion/).
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

// Returns the completions of the last of `words`: commands, options, values of options, keys of configurations. `words`
// is a command line without the program's name; the last word may be empty. Returns nothing where a file name belongs.
std::vector<std::string> completions(const CLI::App& program, std::vector<std::string> words);

}  // namespace foldgrad
