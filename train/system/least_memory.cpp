// Below some size of the address space (`ulimit -v`) libraries do not fail but spin: OpenBLAS asks again and again for
// a buffer of 128 MB, in a constructor that runs before main(); oneDNN crashes when it cannot place code. So the limit
// is looked at before any library begins.
#include "train/system/least_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include "train/system/exit_code.h"

namespace foldgrad {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void require_least_memory() {}  // instrumented code cannot run before its library, and needs terabytes of addresses
#else
void require_least_memory() {
  constexpr rlim_t kLeast = rlim_t(640) << 20;  // measured: 520 to 600 MiB still crash during training
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  constexpr char kText[] = "error: the address space (ulimit -v) must have at least 640 MiB = 655360 KiB\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(kExitDevice);
}
#endif

}  // namespace foldgrad
