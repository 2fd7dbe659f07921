// A stack on which a function runs that can be suspended and resumed. Linux with glibc.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include "emulation/sanitizers.h"

namespace foldgrad::emulation {

// A fiber, which lives as long as the process: its stack is never freed.
class Fiber {
 public:
  // Makes the stack, once. entry() must never return. Throws std::runtime_error when there is no memory.
  void prepare(void (*entry)());
  // Runs entry() from its start, later from where it was suspended, until suspend(). Called from the host's stack.
  void resume();
  // Returns to resume() from entry(). Not while an exception is being handled: the runtime keeps those per host thread.
  void suspend();

  // Reports to ThreadSanitizer, to which a fiber is a thread and switching orders nothing: what this fiber did before
  // release(point) happens before what others do after acquire(point). Called from the host's stack.
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
