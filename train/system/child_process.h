// Other programs, run as children.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace foldgrad {

struct ChildResult {
  int error;              // an errno: why it could not be started; ENOENT: it is not in $PATH
  int status;             // its exit code, or -1 when a signal ended it or it was not started
  int signal = 0;         // the one that ended it
  std::string said = {};  // what its last line with "error: " on stderr says, of a child with `stop`

  bool succeeded() const { return error == 0 && status == 0; }
  // Returns "could not be started: Too many open files", "was ended by signal 9 (Killed)" or "exited with code 3".
  std::string how() const;
};

// Runs the program arguments[0] of $PATH, without a shell, and waits for its end. Signals reach it as they reach any
// program (train/system/signals.h blocks them in the caller). It gets SIGTERM when this process dies, however that
// happens. `quiet`: what it prints is discarded.
ChildResult run_child(std::vector<std::string> arguments, bool quiet);

// Runs a program that can be stopped: `stop` is asked again and again, and once it returns true the child gets SIGTERM,
// and SIGCONT in case it stands still. Five minutes later it is killed. It leads a process group of its own, so that a
// terminal does not interrupt it, and is killed when this process dies: the next one may begin where it was. What it
// prints is discarded except its last error.
ChildResult run_child_until(std::vector<std::string> arguments, const std::function<bool()>& stop);

}  // namespace foldgrad
