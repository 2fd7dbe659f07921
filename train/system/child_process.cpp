#include "train/system/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
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

Started start(std::vector<std::string>& arguments, bool quiet, bool leads_group) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, short(POSIX_SPAWN_SETSIGMASK | (leads_group ? POSIX_SPAWN_SETPGROUP : 0)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet)
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return {error, child};
}

ChildResult ended(int status) { return {0, WIFEXITED(status) ? WEXITSTATUS(status) : -1}; }

}  // namespace

ChildResult run_child(std::vector<std::string> arguments, bool quiet) {
  const auto [error, child] = start(arguments, quiet, /*leads_group=*/false);
  if (error != 0) return {error, -1};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ended(status);
}

ChildResult run_child_until(std::vector<std::string> arguments, bool quiet, const std::function<bool()>& stop) {
  const auto [error, child] = start(arguments, quiet, /*leads_group=*/true);
  if (error != 0) return {error, -1};
  bool told = false;
  for (int status = 0;;) {
    if (waitpid(child, &status, WNOHANG) == child) return ended(status);
    if (!told && stop()) {
      told = true;
      kill(child, SIGTERM);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace foldgrad
