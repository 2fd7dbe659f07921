// The program `foldgrad`: its commands, and the options before a command.
#pragma once

namespace foldgrad {

struct BuildInfo;

// Runs the command line that main() was given. Returns the exit code (train/system/exit_code.h).
int run_command_line(int argc, char** argv, const BuildInfo& build);

}  // namespace foldgrad
