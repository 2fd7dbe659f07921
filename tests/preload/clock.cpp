// A library for LD_PRELOAD that makes clocks run backwards: each reading is about a second earlier than the one before.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static std::atomic<long> looks = 0;
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0) time->tv_sec -= ++looks;
  return int(result);
}
