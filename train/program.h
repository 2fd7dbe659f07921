// The program `foldgrad`: its commands, and the options that stand before them.
#pragma once

namespace foldgrad {

struct BuildInfo;

// Runs what main() was given. Returns the exit code (train/system/exit_code.h).
int run_program(int argc, char** argv, const BuildInfo& build);

}  // namespace foldgrad
