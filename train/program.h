// The program `foldgrad`: its commands, and the options before a command.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

struct BuildInfo;

// Runs the command line that main() was given. `self`: the words that start this program, for commands that start it
// again; {"/usr/bin/python3", "-m", "foldgrad"}. Returns the exit code (train/system/exit_code.h).
int run_command_line(int argc, char** argv, const BuildInfo& build, const std::vector<std::string>& self);

}  // namespace foldgrad
