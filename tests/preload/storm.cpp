// A library for LD_PRELOAD that interrupts a program with SIGPROF, a thousand times per second of processor time, in
// any thread that does not block the signal. The signal handler is empty, so a program whose libraries follow the
// calling convention must not notice the signals.
#include <signal.h>
#include <sys/time.h>

namespace {

void nothing(int) {}

__attribute__((constructor)) void begin() {
  struct sigaction action = {};
  action.sa_handler = nothing;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval millisecond = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &millisecond, nullptr);
}

}  // namespace
