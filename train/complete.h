// Shell completion for the program's command lines, for the scripts in scripts/completion/.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

// Returns the completions of the last word: commands, options, values of options or configuration keys. `words` is a
// command line without the program's name; its last word may be empty. Returns nothing where a file name is expected.
std::vector<std::string> completions(const CLI::App& program, std::vector<std::string> words);

}  // namespace foldgrad
