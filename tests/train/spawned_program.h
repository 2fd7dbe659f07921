// Runs the program `foldgrad` as a child process that the test can watch and send signals to.
#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/train/program.h"

namespace foldgrad::testing {

inline const std::string kEndless = "--set train.steps=100000000 --set output.log_every=1 ";

class SpawnedProgram {
 public:
  // A shell interprets `arguments`, which may contain redirections. The child process leads its own process group, like
  // a job that a shell started. It calls `prepare` and then starts the program, through `launcher` if one is given.
  explicit SpawnedProgram(
      const std::string& arguments, const std::function<void()>& prepare = [] {}, const std::string& launcher = "")
      : pid_(fork()) {
    if (pid_ != 0) return;
    setpgid(0, 0);
    prepare();
    const std::string command = without_gpus(arguments) + "exec " + launcher + " '" + program() + "' " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  ~SpawnedProgram() {
    if (running_) send(SIGKILL), wait();
  }
  SpawnedProgram(const SpawnedProgram&) = delete;
  SpawnedProgram& operator=(const SpawnedProgram&) = delete;

  pid_t pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }
  bool ended() const {
    siginfo_t info{};
    return waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }
  // Waits until the program ends, or with WUNTRACED until it stops. Returns the status from waitpid().
  int wait(int options = 0) {
    int status = 0;
    waitpid(pid_, &status, options);
    running_ = WIFSTOPPED(status);
    return status;
  }
  int exit_code() {  // waits for the program; returns -1 if a signal ended it
    const int status = wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int end_signal() {  // waits for the program; returns 0 if no signal ended it
    const int status = wait();
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  // Returns a field of /proc/PID/status, or of the status of one thread. Returns "" if the process or thread has ended.
  std::string status(const std::string& field, const std::string& thread = "") const {
    const std::string process = "/proc/" + std::to_string(pid_);
    std::ifstream file((thread.empty() ? process : process + "/task/" + thread) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.rfind(field + ":\t", 0) == 0) return line.substr(field.size() + 2);
    return "";
  }
  // Returns true if `set`, SigBlk or SigCgt in /proc/PID/status, contains `signal`.
  bool has(const std::string& set, int signal, const std::string& thread = "") const {
    const std::string bits = status(set, thread);
    return !bits.empty() && (std::stoull(bits, nullptr, 16) >> (signal - 1) & 1) == 1;
  }

 private:
  pid_t pid_;
  bool running_ = true;
};

// Returns a launcher that preloads the library built from tests/preload/`name`.cpp.
inline std::string preloading(const std::string& name) {
  const char* options = std::getenv("ASAN_OPTIONS");  // ASan rejects libraries loaded before its own
  return "env LD_PRELOAD='" FOLDGRAD_PRELOAD "/lib" + name + ".so' ASAN_OPTIONS='" + (options ? options : "") +
         ":verify_asan_link_order=0'";
}

template <class Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace foldgrad::testing
