#include "train/system/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "engine/parallel/elapsed.h"

namespace foldgrad {
namespace {

struct Wanted {
  bool quiet, leads_group;
  int death_signal;  // sent to the child when this process dies
  int errors = -1;   // the descriptor that receives the child's stderr; -1 if there is none
};

struct Started {
  int error;
  pid_t child;
};

// Replaces this process with the program `words`. If that fails, writes errno to `errors`. Makes only async-signal-safe
// calls, since another thread may have held the lock of malloc() when this process was forked.
[[noreturn]] void become(char* const* words, const Wanted& wanted, pid_t parent, int errors) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (wanted.leads_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, wanted.death_signal);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  if (wanted.quiet) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  }
  if (wanted.errors >= 0) dup2(wanted.errors, STDERR_FILENO);
  execvp(words[0], words);
  const int error = errno;
  (void)!write(errors, &error, sizeof error);
  _exit(127);
}

Started start(std::vector<std::string>& arguments, const Wanted& wanted) {
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {errno, 0};
  // A parent process may have ignored SIGCHLD, which would make waiting for a child fail.
  signal(SIGCHLD, SIG_DFL);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) become(words.data(), wanted, parent, ends[1]);
  int error = child < 0 ? errno : 0;
  close(ends[1]);
  if (child > 0 && TEMP_FAILURE_RETRY(read(ends[0], &error, sizeof error)) > 0) waitpid(child, nullptr, 0);
  close(ends[0]);
  return {error, child};
}

ChildResult result_of(int status) {
  return {0, WIFEXITED(status) ? WEXITSTATUS(status) : -1, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

// Finds the last line "error: ..." in text that comes in pieces.
class LastError {
 public:
  void add(std::string_view text) {
    constexpr std::size_t kLongest = 4096;
    for (const char c : text) {
      if (c == '\n' || c == '\r') {
        take_line();
      } else if (line_.size() < kLongest) {
        line_ += c;
      }
    }
  }
  std::string take() {
    take_line();
    return std::move(last_);
  }

 private:
  void take_line() {
    constexpr std::string_view kBegin = "error: ";
    if (line_.starts_with(kBegin)) last_ = line_.substr(kBegin.size());
    line_.clear();
  }

  std::string line_, last_;
};

}  // namespace

std::string ChildResult::how() const {
  if (error != 0) return "could not be started: " + std::generic_category().message(error);
  if (signal != 0) return fmt::format("was ended by signal {} ({})", signal, strsignal(signal));
  return fmt::format("exited with code {}", status);
}

ChildResult run_child(std::vector<std::string> arguments, bool quiet) {
  const auto [error, child] = start(arguments, {quiet, /*leads_group=*/false, SIGTERM});
  if (error != 0) return {error, -1};
  int status = 0;
  while (waitpid(child, &status, 0) != child) continue;  // interrupted by a signal
  return result_of(status);
}

ChildResult run_child_until(std::vector<std::string> arguments, const std::function<bool()>& stop) {
  constexpr auto kGrace = std::chrono::minutes(5);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return {errno, -1};
  fcntl(ends[1], F_SETFL, 0);  // programs expect that the child's end blocks
  const auto [error, child] = start(arguments, {true, /*leads_group=*/true, SIGKILL, ends[1]});
  close(ends[1]);
  LastError errors;
  const auto read_errors = [&] {
    char text[4096];
    ssize_t count;
    while ((count = read(ends[0], text, sizeof text)) > 0) errors.add({text, std::size_t(count)});
  };
  int status = 0;
  Clock::time_point told{};
  while (error == 0 && waitpid(child, &status, WNOHANG) != child) {
    if (told == Clock::time_point() && stop()) {
      kill(child, SIGTERM);
      told = Clock::now();
    }
    if (told != Clock::time_point()) kill(child, Clock::now() - told > kGrace ? SIGKILL : SIGCONT);
    poll(nullptr, 0, 20);
    read_errors();
  }
  read_errors();
  close(ends[0]);
  if (error != 0) return {error, -1};
  ChildResult result = result_of(status);
  result.said = errors.take();
  return result;
}

}  // namespace foldgrad
