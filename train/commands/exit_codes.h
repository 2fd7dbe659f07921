// The exit codes of commands that throw.
#pragma once
#include <functional>

#include "train/system/exit_code.h"

namespace foldgrad {

// Runs a command. What it throws becomes "error: MESSAGE" on stderr and the exit code that the kind of exception has;
// commands need no handlers of their own, since main() calls them through this.
int guarded(const std::function<int()>& command);

}  // namespace foldgrad
