// A library for LD_PRELOAD with an empty signal handler that is called a thousand times per second of processor time,
// in any thread that does not block SIGPROF. A program whose libraries keep to the calling convention cannot notice it.
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
