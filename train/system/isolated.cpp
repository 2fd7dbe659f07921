#include "train/system/isolated.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace foldgrad {
namespace {

[[noreturn]] void be_the_child(const std::function<std::string()>& work, int to_parent) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDERR_FILENO);
  sigset_t none;  // the parent may have a thread for signals, which is not here
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  try {
    const std::string result = work();
    for (std::size_t done = 0; done < result.size();) {
      const ssize_t count = write(to_parent, result.data() + done, result.size() - done);
      if (count < 0 && errno != EINTR) _exit(1);
      done += std::size_t(std::max<ssize_t>(count, 0));
    }
    _exit(0);
  } catch (...) {
    _exit(1);
  }
}

std::string read_all(int from) {
  std::string all;
  char buffer[1 << 16];
  for (ssize_t count; (count = read(from, buffer, sizeof buffer)) != 0;) {
    if (count < 0 && errno != EINTR) break;
    all.append(buffer, std::size_t(std::max<ssize_t>(count, 0)));
  }
  return all;
}

}  // namespace

std::string output_of_child(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "no pipe");
  const pid_t child = fork();
  if (child == 0) be_the_child(work, ends[1]);
  const int error = errno;
  close(ends[1]);
  std::string output;
  if (child > 0) output = read_all(ends[0]);
  close(ends[0]);
  if (child < 0) throw std::system_error(error, std::generic_category(), "no process");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? output : "";
}

}  // namespace foldgrad
