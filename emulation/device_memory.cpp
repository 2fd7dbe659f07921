#include "emulation/device_memory.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace foldgrad::emulation {
namespace {

constexpr std::size_t kReserved = std::size_t(64) << 30, kPage = 4096;

class Arena {
 public:
  Arena() {
    void* range = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw std::runtime_error("emulation: cannot reserve addresses for device memory");
    begin_ = static_cast<char*>(range);
  }

  void* allocate(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > kReserved - used_) return nullptr;
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    std::vector<char*>& free = free_[size];
    char* block = nullptr;
    if (!free.empty()) {
      block = free.back();
      free.pop_back();
    } else {
      block = begin_ + used_;
      used_ += size;
      if (accesses_ > 0) protect(PROT_READ | PROT_WRITE);
    }
    sizes_[block] = size;
    return block;
  }

  void release(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto block = sizes_.find(static_cast<char*>(pointer));
    madvise(block->first, block->second, MADV_DONTNEED);
    free_[block->second].push_back(block->first);
    sizes_.erase(block);
  }

  void open() {
    const std::lock_guard lock(mutex_);
    if (accesses_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--accesses_ == 0) protect(PROT_NONE);
  }

  bool contains(const void* address) const { return begin_ <= address && address < begin_ + kReserved; }

 private:
  void protect(int access) {
    if (used_ > 0 && mprotect(begin_, used_, access) != 0) throw std::runtime_error("emulation: mprotect failed");
  }

  std::mutex mutex_;
  char* begin_;
  std::size_t used_ = 0;
  int accesses_ = 0;
  std::map<char*, std::size_t> sizes_;              // sizes of the blocks in use
  std::map<std::size_t, std::vector<char*>> free_;  // free blocks of each size
};

struct sigaction before;
Arena* guarded = nullptr;

void on_fault(int signal, siginfo_t* info, void*) {
  if (guarded->contains(info->si_addr)) {
    char text[200];
    const int length = std::snprintf(
        text, sizeof text,
        "emulation: the host accessed device memory at %p outside of kernels and copies. Call stack:\n", info->si_addr);
    if (write(STDERR_FILENO, text, std::size_t(length)) == length) {
      void* calls[32];
      backtrace_symbols_fd(calls, backtrace(calls, 32), STDERR_FILENO);
    }
  }
  sigaction(signal, &before, nullptr);  // the faulting instruction runs again and now ends the process
}

// Returns the arena. It is never destroyed, since tensors may be released after all static objects are destroyed.
Arena& arena() {
  static Arena* const made = [] {
    guarded = new Arena;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
    return guarded;
  }();
  return *made;
}

}  // namespace

bool guards_device_memory() {
  static const char* const value = std::getenv("FOLDGRAD_GUARD_DEVICE_MEMORY");
  static const bool guards = value && std::string(value) == "1";
  return guards;
}

void* allocate_device_memory(std::size_t bytes) { return arena().allocate(bytes); }
void release_device_memory(void* pointer) noexcept { arena().release(pointer); }

DeviceAccess::DeviceAccess() {
  if (guards_device_memory()) arena().open();
}
DeviceAccess::~DeviceAccess() {
  if (guards_device_memory()) arena().close();
}

}  // namespace foldgrad::emulation
