// Signals and generated code. Products that oneDNN generates keep their stack pointer in a buffer on the heap
// (uxlfoundation/oneDNN 4845): a signal handler that runs meanwhile writes its frame there, into other data.
#pragma once
#include <pthread.h>

#include <csignal>

namespace foldgrad {

// Blocks signals in the calling thread, and in threads that it starts, as long as it lives. Signals that came meanwhile
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

  // The signals that were blocked before.
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

}  // namespace foldgrad
