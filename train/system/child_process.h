// Other programs, run as children.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace foldgrad {

struct ChildResult {
  int error;              // 0, or the errno of a failed start; ENOENT if the program is not in $PATH
  int status;             // its exit code, or -1 if a signal ended it or it was not started
  int signal = 0;         // the signal that ended it, if any
  std::string said = {};  // the text of its last line "error: ..." on stderr, for run_child_until()

  bool succeeded() const { return error == 0 && status == 0; }
  // Returns "could not be started: Too many open files", "was ended by signal 9 (Killed)" or "exited with code 3".
  std::string how() const;
};

// Runs the program arguments[0] of $PATH, without a shell, and waits for its end. The child receives signals as any
// program does, although the caller blocks them (train/system/signals.h). It gets SIGTERM when this process dies,
// however it dies. `quiet`: discards its output.
ChildResult run_child(std::vector<std::string> arguments, bool quiet);

// Runs a program that can be stopped: `stop` is called repeatedly, and once it returns true the child gets SIGTERM, and
// SIGCONT in case it is suspended. It is killed five minutes later, and also when this process dies, since the next
// process may start the same work. It leads its own process group, so that a terminal does not interrupt it. Its output
// is discarded except the last error.
ChildResult run_child_until(std::vector<std::string> arguments, const std::function<bool()>& stop);

}  // namespace foldgrad
