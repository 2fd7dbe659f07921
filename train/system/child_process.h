// Other programs, run as children.
#pragma once
#include <string>
#include <vector>

namespace foldgrad {

struct ChildResult {
  int error;   // an errno: why it could not be started; ENOENT: it is not in $PATH
  int status;  // its exit code, or -1 when a signal ended it or it was not started

  bool succeeded() const { return error == 0 && status == 0; }
};

// Runs the program arguments[0] of $PATH, without a shell, and waits for its end. Signals reach it as they reach any
// program (train/system/signals.h blocks them in the caller). `quiet`: what it prints is discarded.
ChildResult run_child(std::vector<std::string> arguments, bool quiet);

}  // namespace foldgrad
