// Signals and generated code. The code that oneDNN generates for products keeps its stack pointer in a buffer on the
// heap (uxlfoundation/oneDNN 4845). A signal handler that runs meanwhile would write its frame there and destroy other
// data.
#pragma once
#include <pthread.h>

#include <csignal>

namespace foldgrad {

// While an object lives, the calling thread and the threads that it starts block signals. Signals that arrive meanwhile
// are delivered afterwards. Faults of the thread itself are not blocked.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  // the signals that were already blocked
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

}  // namespace foldgrad
