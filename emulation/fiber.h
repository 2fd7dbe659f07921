// A function on its own stack that can be suspended and resumed. Needs Linux with glibc.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include "emulation/sanitizers.h"

namespace foldgrad::emulation {

// The stack of a fiber is never freed, so fibers should live as long as the process.
class Fiber {
 public:
  // Prepares the fiber to run entry(), which must never return. The first call allocates the stack. Throws
  // std::runtime_error if there is no memory left.
  void prepare(void (*entry)());
  // Runs entry() from its beginning, or from where it was suspended, until it calls suspend(). Call this from the
  // host's stack.
  void resume();
  // Switches from entry() back to resume(). Do not call it while an exception is being handled: the C++ runtime keeps
  // the state of exceptions per host thread.
  void suspend();

  // ThreadSanitizer sees fibers as threads, and a switch between fibers orders nothing. These functions declare an
  // order: everything that this fiber did before release(point) happens before everything that a fiber or the host does
  // after acquire(point). Call these functions from the host's stack.
  void release(void* point);
  void acquire(void* point);

 private:
  char* stack_ = nullptr;
  ucontext_t context_;
  jmp_buf jump_;
  bool entered_ = false;
  void* fake_stack_ = nullptr;  // AddressSanitizer
  void* tsan_fiber_ = nullptr;  // ThreadSanitizer
};

void host_release(void* point);
void host_acquire(void* point);

}  // namespace foldgrad::emulation
