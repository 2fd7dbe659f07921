#include "train/system/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace foldgrad {

namespace {

struct Started {
  int error;
  pid_t child;
};

// Becomes the program `words`; when that fails, writes the errno. Only async-signal-safe calls: another thread may have
// held the lock of malloc() while this process was forked.
[[noreturn]] void become(char* const* words, bool quiet, bool leads_group, pid_t parent, int errors) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (leads_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it had died before the call above
  if (quiet) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  }
  execvp(words[0], words);
  const int error = errno;
  (void)!write(errors, &error, sizeof error);
  _exit(127);
}

Started start(std::vector<std::string>& arguments, bool quiet, bool leads_group) {
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {errno, 0};
  // Where it is ignored, as a parent may have left it, nobody can wait for a child.
  signal(SIGCHLD, SIG_DFL);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(words.data(), quiet, leads_group, parent, ends[1]);
  int error = child < 0 ? errno : 0;
  close(ends[1]);
  if (child > 0 && TEMP_FAILURE_RETRY(read(ends[0], &error, sizeof error)) > 0) waitpid(child, nullptr, 0);
  close(ends[0]);
  return {error, child};
}

}  // namespace

ChildResult run_child(std::vector<std::string> arguments, bool quiet, const std::function<bool()>& stop) {
  const auto [error, child] = start(arguments, quiet, /*leads_group=*/bool(stop));
  if (error != 0) return {error, -1};
  int status = 0;
  for (bool told = false; waitpid(child, &status, stop ? WNOHANG : 0) != child;) {
    if (!stop) continue;  // a signal came
    if (!told && stop()) told = kill(child, SIGTERM) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {0, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

}  // namespace foldgrad
