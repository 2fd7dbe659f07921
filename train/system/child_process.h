// Other programs, run as children.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace foldgrad {

struct ChildResult {
  int error;   // an errno: why it could not be started; ENOENT: it is not in $PATH
  int status;  // its exit code, or -1 when a signal ended it or it was not started

  bool succeeded() const { return error == 0 && status == 0; }
};

// Runs the program arguments[0] of $PATH, without a shell, and waits for its end. Signals reach it as they reach any
// program (train/system/signals.h blocks them in the caller). It gets SIGTERM when this process dies, however that
// happens. `quiet`: what it prints is discarded. With `stop`, which is asked again and again, it gets SIGTERM once that
// returns true, and leads a process group of its own, so that a terminal does not interrupt it.
ChildResult run_child(std::vector<std::string> arguments, bool quiet, const std::function<bool()>& stop = nullptr);

}  // namespace foldgrad
