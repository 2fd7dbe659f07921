// Runs other programs as child processes.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace foldgrad {

struct ChildResult {
  int error;              // 0, or the errno of a failed start; ENOENT if the program is not in $PATH
  int status;             // exit code of the child; -1 if a signal ended it or it was not started
  int signal = 0;         // the signal that ended the child; 0 if there was none
  std::string said = {};  // the child's last "error: ..." message on stderr; only from run_child_until()

  bool succeeded() const { return error == 0 && status == 0; }
  // Returns "could not be started: Too many open files", "was ended by signal 9 (Killed)" or "exited with code 3".
  std::string how() const;
};

// Runs the program arguments[0] from $PATH, without a shell, and waits until it ends. The child blocks no signals,
// although the caller does (train/system/signals.h). The child receives SIGTERM when this process dies for any reason.
// If `quiet`, the child's output is discarded.
ChildResult run_child(std::vector<std::string> arguments, bool quiet);

// Runs a program that can be stopped: `stop` is called repeatedly, and once it returns true the child receives SIGTERM,
// and SIGCONT in case it is suspended. The child is killed five minutes later, and also when this process dies, since
// the next process may start the same work. The child leads its own process group, so that Ctrl+C in a terminal does
// not reach it. The child's output is discarded, except for its last error message.
ChildResult run_child_until(std::vector<std::string> arguments, const std::function<bool()>& stop);

}  // namespace foldgrad
