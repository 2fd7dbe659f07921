// Blocks signals while generated code runs. The code that oneDNN generates for matrix products points the stack pointer
// into a buffer on the heap (uxlfoundation/oneDNN 4845). A signal handler that runs meanwhile would write its frame
// there and overwrite other data.
#pragma once
#include <pthread.h>

#include <csignal>

namespace foldgrad {

// While an object lives, the calling thread and the threads that it starts block signals. Signals that arrive meanwhile
// are delivered afterwards. Signals for the thread's own faults, such as SIGSEGV, are not blocked.
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

  // Returns the signals that were already blocked.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

}  // namespace foldgrad
