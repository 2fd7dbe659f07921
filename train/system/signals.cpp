#include "train/system/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>
#include <thread>

#include "train/system/exit_code.h"

namespace foldgrad {
namespace {

constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};
// The signals for a thread's own faults, and SIGTTIN and SIGTTOU, which stop a background process that uses the
// terminal. SIGTTIN and SIGTTOU must reach the thread that uses the terminal; stopping it writes no signal frame.
constexpr int kNotBlocked[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTTIN, SIGTTOU};

std::atomic<bool> caught = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // only then can a handler use it

void set_handlers(void (*handler)(int)) {
  for (const int signal : kInterrupts)
    // nohup ignores SIGHUP, which must stay ignored.
    if (std::signal(signal, handler) == SIG_IGN && signal == SIGHUP) std::signal(signal, SIG_IGN);
}

void write_to_stderr(std::string_view text) { (void)!write(STDERR_FILENO, text.data(), text.size()); }

void leave(int) {
  write_to_stderr("\ninterrupted before the first update: there is nothing to save\n");
  _exit(kExitInterrupted);
}

void leave_quietly(int) { _exit(kExitInterrupted); }

void note(int) {
  caught = true;
  set_handlers(SIG_DFL);
  write_to_stderr("\nstopping after this update; a second signal stops at once, without saving\n");
}

}  // namespace

void confine_signals() {
  std::thread([] {
    for (;;) pause();
  }).detach();
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int signal : kNotBlocked) sigdelset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

void leave_when_interrupted(bool quietly) { set_handlers(quietly ? leave_quietly : leave); }

void note_interrupts() { set_handlers(note); }

void end_when_interrupted() { set_handlers(SIG_DFL); }

bool interrupted() { return caught; }

}  // namespace foldgrad
