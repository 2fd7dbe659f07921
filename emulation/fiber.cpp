#undef _FORTIFY_SOURCE  // because the fortified longjmp aborts if its target is on another stack

#include "emulation/fiber.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstddef>
#include <stdexcept>

namespace foldgrad::emulation {
namespace {

constexpr std::size_t kGuardPage = 4096;
constexpr std::size_t kStackBytes = (kAddressSanitizer || kThreadSanitizer ? 256 : 64) * 1024;
// ThreadSanitizer needs swapcontext, which makes two system calls. _setjmp and _longjmp switch 25 times as fast.
constexpr bool kSwapContext = kThreadSanitizer;
// AddressSanitizer replaces _longjmp with a version that clears the stack's shadow memory. The C library's does not.
const auto jump_to =
    kAddressSanitizer
        ? reinterpret_cast<void (*)(jmp_buf, int)>(dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "_longjmp"))
        : _longjmp;

ucontext_t host_context;
jmp_buf host_jump;
int stacks = 0;
FOLDGRAD_ASAN(const void* host_bottom; std::size_t host_size; void (*entry_point)();)
FOLDGRAD_TSAN(void* host_fiber;)

// The page below the stack is inaccessible, so that an overflow cannot reach the neighbour.
char* allocate_stack() {
  void* memory = mmap(nullptr, kGuardPage + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardPage, PROT_NONE) != 0)
    throw std::runtime_error("emulation: cannot allocate the stack of a fiber");
  return static_cast<char*>(memory) + kGuardPage;
}

FOLDGRAD_ASAN(void entered() {
  __sanitizer_finish_switch_fiber(nullptr, &host_bottom, &host_size);
  entry_point();
})
FOLDGRAD_TSAN(FOLDGRAD_UNSEEN void report_as(void* fiber, void (*report)(void*), void* point) {
  if (!fiber) return;  // a fiber that does not exist yet will run after everything that the host has done so far
  void* host = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
  report(point);
  __tsan_switch_to_fiber(host, __tsan_switch_to_fiber_no_sync);
})

}  // namespace

void Fiber::prepare(void (*entry)()) {
  if (stack_) return;
  stack_ = allocate_stack();
  FOLDGRAD_TSAN(tsan_fiber_ = __tsan_create_fiber(0));
  getcontext(&context_);
  // Stacks begin at different offsets in a page, since otherwise they would compete for the same cache lines.
  const std::size_t offset = std::size_t(stacks++ % 32) * 128;
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = kStackBytes - offset;
  FOLDGRAD_ASAN(entry_point = entry; entry = entered);
  makecontext(&context_, entry, 0);
}

FOLDGRAD_UNSEEN void Fiber::resume() {
  FOLDGRAD_ASAN(void* fake_stack; __sanitizer_start_switch_fiber(&fake_stack, stack_, kStackBytes));
  FOLDGRAD_TSAN(host_fiber = __tsan_get_current_fiber());
  FOLDGRAD_TSAN(__tsan_switch_to_fiber(tsan_fiber_, __tsan_switch_to_fiber_no_sync));
  if (kSwapContext) {
    swapcontext(&host_context, &context_);
  } else if (_setjmp(host_jump) == 0) {
    if (entered_) jump_to(jump_, 1);
    entered_ = true;
    setcontext(&context_);
  }
  FOLDGRAD_ASAN(__sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr));
}

FOLDGRAD_UNSEEN void Fiber::suspend() {
  FOLDGRAD_ASAN(__sanitizer_start_switch_fiber(&fake_stack_, host_bottom, host_size));
  FOLDGRAD_TSAN(__tsan_switch_to_fiber(host_fiber, __tsan_switch_to_fiber_no_sync));
  if (kSwapContext) {
    swapcontext(&context_, &host_context);
  } else if (_setjmp(jump_) == 0) {
    jump_to(host_jump, 1);
  }
  FOLDGRAD_ASAN(__sanitizer_finish_switch_fiber(fake_stack_, &host_bottom, &host_size));
}

FOLDGRAD_UNSEEN void Fiber::release([[maybe_unused]] void* point) {
  FOLDGRAD_TSAN(report_as(tsan_fiber_, __tsan_release, point));
}
FOLDGRAD_UNSEEN void Fiber::acquire([[maybe_unused]] void* point) {
  FOLDGRAD_TSAN(report_as(tsan_fiber_, __tsan_acquire, point));
}
void host_release([[maybe_unused]] void* point) { FOLDGRAD_TSAN(__tsan_release(point)); }
void host_acquire([[maybe_unused]] void* point) { FOLDGRAD_TSAN(__tsan_acquire(point)); }

}  // namespace foldgrad::emulation
