#include "train/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace foldgrad {
namespace {

volatile std::sig_atomic_t caught = 0;

void interrupt(int signal) {
  caught = 1;
  std::signal(signal, SIG_DFL);
  constexpr char kText[] = "\nstopping after this update; a second signal stops at once, without saving\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
}

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
}

bool interrupted() { return caught; }

}  // namespace foldgrad
