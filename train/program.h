// The program `foldgrad`: its commands, and the options before a command.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

struct BuildInfo;

// Runs the command line that main() received and returns the exit code (train/system/exit_code.h). `self` is the
// command that starts this program, such as {"/usr/bin/python3", "-m", "foldgrad"}, for commands that start it again.
int run_command_line(int argc, char** argv, const BuildInfo& build, const std::vector<std::string>& self);

}  // namespace foldgrad
