// The program `foldgrad`: its commands, the options before a command, completions, and the man page.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace foldgrad {

struct BuildInfo;

// Runs the command line that main() received and returns the exit code (train/system/exit_code.h). `self` is the
// command that starts this program, such as {"/usr/bin/python3", "-m", "foldgrad"}, for commands that start it again.
int run_command_line(int argc, char** argv, const BuildInfo& build, const std::vector<std::string>& self);

// Returns the completions of the last word, for the scripts in scripts/completion/: commands, options, values of
// options or configuration keys. `words` is a command line without the program's name; its last word may be empty.
// Returns nothing where a file name is expected.
std::vector<std::string> completions(const CLI::App& program, std::vector<std::string> words);
// Returns the man page: the help texts of the program and of every command, in man's format.
std::string manual(const CLI::App& program, const std::string& version);

}  // namespace foldgrad
